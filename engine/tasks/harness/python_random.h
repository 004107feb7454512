// The random numbers of Python's random.Random(seed), as far as drawing few-shot examples needs them, bit for bit:
// MT19937 started by init_by_array (Matsumoto & Nishimura 2002), getrandbits of at most 32 bits, and the choices of
// Random.sample (CPython 3.9 to 3.13, Lib/random.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longhaul {

class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);
  // Indices of `count` of `total` things, in the order in which they are drawn; count <= total.
  std::vector<std::size_t> sample(std::size_t total, std::size_t count);

 private:
  std::uint32_t next();
  std::size_t below(std::size_t n);
  std::uint32_t state_[624] = {};
  std::size_t at_ = 624;
};

}  // namespace longhaul
