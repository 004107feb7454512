// A checksum of an array that a processor and a GPU take with the same bits, in whatever order its words are read: the
// sum, modulo 2^64, of a mixture of each word of 64 bits with its place. The sum of hashes of pairs (place, value) is
// AdHash (Bellare and Micciancio, "A New Paradigm for Collision-free Hashing", 1997, section 4); the mixture is the
// last step of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014), which maps
// words one to one.
//
// Found for certain: whatever changes within one word, so every single flipped bit. Found but once in about 2^64: every
// other change that does not come from knowing these constants: several words, swapped or shifted elements and rows, an
// array cut short. It is no protection against somebody who means harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longhaul {

// What the word at `place` adds to the digest.
constexpr std::uint64_t word_term(std::uint64_t word, std::uint64_t place) {
  std::uint64_t x =
      word ^ ((place + 1) * 0x9E3779B97F4A7C15ULL);  // 2^64 / golden ratio, odd: other keys for all places
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
// What the length adds: the place that no word has.
constexpr std::uint64_t length_term(std::uint64_t bytes) {
  return word_term(bytes, ~std::uint64_t{0});
}

// Words are little-endian and begin where the array does; the last one is filled up with zeros.
std::uint64_t word_digest(std::span<const std::byte> bytes);

}  // namespace longhaul
