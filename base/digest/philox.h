// Counter-based random numbers: the value belongs to (seed, stream, index), never to the order of calls, so initial
// weights, dropout and data order do not depend on how many ranks there are.
// Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace longhaul {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// One logical stream of numbers: seed = the run's, stream = what it is for (a parameter's hash, an epoch, a layer).
struct Philox {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  constexpr PhiloxBlock block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  std::uint32_t u32(std::uint64_t index) const { return block(index >> 2)[index & 3]; }
  std::uint64_t u64(std::uint64_t index) const {
    const PhiloxBlock b = block(index >> 1);
    return (index & 1) ? (std::uint64_t{b[3]} << 32 | b[2]) : (std::uint64_t{b[1]} << 32 | b[0]);
  }
  // In [0, 1), 24 bits.
  float uniform(std::uint64_t index) const { return static_cast<float>(u32(index) >> 8) * 0x1p-24F; }
  // In [0, 1), 53 bits.
  double uniform_double(std::uint64_t index) const { return static_cast<double>(u64(index) >> 11) * 0x1p-53; }
  // Standard normal number `index`: Box-Muller on its own pair of uniforms, computed in double.
  double normal(std::uint64_t index) const {
    const PhiloxBlock b = block(index >> 1);
    const double u = (static_cast<double>(b[0]) + 1.0) * 0x1p-32;  // (0, 1]
    const double v = static_cast<double>(b[1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u));
    constexpr double two_pi = 6.283185307179586476925286766559;
    return (index & 1) ? radius * std::sin(two_pi * v) : radius * std::cos(two_pi * v);
  }
};

// Sequential draws from one stream, for code that has an order of its own (sampling, tests).
class PhiloxSequence {
 public:
  explicit PhiloxSequence(std::uint64_t seed, std::uint64_t stream = 0) : philox_{seed, stream} {}
  std::uint64_t next_u64() { return philox_.u64(next_++); }
  double next_uniform() { return philox_.uniform_double(next_++); }
  // In [0, n), n > 0, without modulo bias worth naming (64-bit multiply-shift).
  std::uint64_t next_below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<Wide>(next_u64()) * n) >> 64);
  }

 private:
  __extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): nvcc reads it
  Philox philox_;
  std::uint64_t next_ = 0;
};

}  // namespace longhaul
