// The random numbers of numpy's legacy RandomState(seed), as far as a shuffle needs them, bit for bit. numpy promises
// never to change them (NEP 19), and other frameworks' data orders are built on them; for our own orders see
// engine/data/samples/permutation.h.
//
// RandomState(seed) is MT19937 (Matsumoto & Nishimura 1998) started from one 32-bit number with Knuth's linear rule,
// which is also what the C++ standard asks of std::mt19937 ([rand.eng.mers]).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace longhaul {

class NumpyRandomState {
 public:
  explicit NumpyRandomState(std::uint32_t seed) : engine_(seed) {}

  // In [0, max]: masked rejection. Numbers are drawn under the smallest mask of ones that covers max until one fits;
  // 64-bit draws, high half first, only where max needs them.
  std::uint64_t interval(std::uint64_t max) {
    if (max == 0) return 0;
    std::uint64_t mask = max;
    for (const int shift : {1, 2, 4, 8, 16, 32}) mask |= mask >> shift;
    std::uint64_t value = 0;
    do value = (max <= 0xFFFFFFFFU ? next_u32() : next_u32() << 32 | next_u32()) & mask;
    while (value > max);
    return value;
  }

  // RandomState.shuffle of a one-dimensional array: Fisher-Yates from the end.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::uint64_t next_u32() { return engine_(); }
  std::mt19937 engine_;
};

}  // namespace longhaul
