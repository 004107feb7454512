#include "engine/tasks/harness/python_random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t words = 624, ahead = 397;

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
  state_[0] = 19650218;
  for (std::uint32_t i = 1; i < words; ++i) state_[i] = 1812433253U * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
  std::size_t i = 1;
  const auto turn = [&] {
    if (++i < words) return;
    state_[0] = state_[words - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < words; ++k, turn())
    state_[i] = (state_[i] ^ (state_[i - 1] ^ state_[i - 1] >> 30) * 1664525U) + seed;
  for (std::uint32_t k = 0; k < words - 1; ++k, turn())
    state_[i] = (state_[i] ^ (state_[i - 1] ^ state_[i - 1] >> 30) * 1566083941U) - static_cast<std::uint32_t>(i);
  state_[0] = 0x80000000U;
}

std::uint32_t PythonRandom::next() {
  if (at_ == words) {
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % words] & 0x7FFFFFFFU);
      state_[i] = state_[(i + ahead) % words] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908B0DFU : 0U);
    }
    at_ = 0;
  }
  std::uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9D2C5680U;
  y ^= y << 15 & 0xEFC60000U;
  return y ^ y >> 18;
}

std::size_t PythonRandom::below(std::size_t n) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(n));
  LH_ASSERT(n > 0 && bits <= 32, format("a number below {} is drawn", n));
  std::size_t value = n;
  while (value >= n) value = next() >> (32 - bits);
  return value;
}

std::vector<std::size_t> PythonRandom::sample(std::size_t total, std::size_t count) {
  LH_ASSERT(count <= total, format("{} of {} are drawn", count, total));
  std::vector<std::size_t> drawn;
  double set_size = 21;  // of a small set less an empty list, in Python's count
  if (count > 5) set_size += std::pow(4, std::ceil(std::log(static_cast<double>(count) * 3) / std::log(4.0)));
  if (static_cast<double>(total) <= set_size) {
    std::vector<std::size_t> pool(total);
    for (std::size_t i = 0; i < total; ++i) pool[i] = i;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t j = below(total - i);
      drawn.push_back(pool[j]);
      pool[j] = pool[total - i - 1];
    }
    return drawn;
  }
  std::set<std::size_t> taken;
  while (drawn.size() < count)
    if (const std::size_t j = below(total); taken.insert(j).second) drawn.push_back(j);
  return drawn;
}

}  // namespace longhaul
