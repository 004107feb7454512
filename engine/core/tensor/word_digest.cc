#include "engine/core/tensor/word_digest.h"

#include <cstring>

namespace longhaul {

std::uint64_t word_digest(std::span<const std::byte> bytes) {
  std::uint64_t sum = length_term(bytes.size());
  const std::size_t whole = bytes.size() / 8;
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < whole; ++i) {
    std::memcpy(&word, bytes.data() + i * 8, 8);
    sum += word_term(word, i);
  }
  const std::size_t rest = bytes.size() % 8;
  if (rest == 0) return sum;
  word = 0;
  std::memcpy(&word, bytes.data() + whole * 8, rest);
  return sum + word_term(word, whole);
}

}  // namespace longhaul
