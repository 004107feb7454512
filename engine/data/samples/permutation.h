// A permutation of [0, n) that needs no memory: position k of the order is computed from (seed, stream, k) alone.
//
// A four-round Feistel network over the smallest even number of bits that holds n, its round function a Philox block
// keyed by the seed; values that fall outside [0, n) walk the cycle until they are inside (fewer than four steps on
// average). Luby & Rackoff 1988 (four rounds); Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
// The alternative, a shuffled table, would have to be rebuilt or stored at every restart.
#pragma once

#include <cstdint>

#include "base/digest/philox.h"
#include "base/error/result.h"

namespace longhaul {

// The stream of an epoch's data order, apart from every other use of the run's seed.
inline std::uint64_t data_order_stream(std::int64_t epoch) {
  return 0xDA7A000000000000ULL + static_cast<std::uint64_t>(epoch);
}

class Permutation {
 public:
  // n >= 1. `stream` distinguishes orders of the same seed: the epoch.
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t stream) : n_(n), philox_{seed, stream} {
    LH_ASSERT(n >= 1, "permutation of nothing");
    while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  }

  // k in [0, n) -> [0, n), each value once.
  std::uint64_t operator()(std::uint64_t k) const {
    LH_ASSERT(k < n_, "permutation index out of range");
    do k = encipher(k);
    while (k >= n_);
    return k;
  }

 private:
  std::uint64_t encipher(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (philox_.block(round << 32 | right)[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t n_ = 1;
  int half_bits_ = 1;
  Philox philox_;
};

}  // namespace longhaul
