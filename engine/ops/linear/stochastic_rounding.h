// Rounding to bf16 by chance: away from zero with the probability that the part cut off is of a unit in the last place,
// so that the expected value of what is stored is the value itself (Gupta et al. 2015, "Deep learning with limited
// numerical precision", section 3; Croci et al. 2022, "Stochastic rounding"). Changes far smaller than that unit, which
// rounding to nearest loses one after the other, then count in the mean.
//
// The bits belong to (seed, step, parameter, element of its global tensor), so that no layout changes a result.
#pragma once

#include <cstdint>
#include <limits>

#include "base/digest/philox.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

// draw: 16 random bits. Infinity stays, NaN stays (quiet) NaN; above the largest bf16 it may become infinity.
constexpr bf16 round_stochastically(float value, std::uint32_t draw) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if (value != value) return bf16(value);
  return bf16::from_bits(static_cast<std::uint16_t>((u + draw) >> 16));
}

// 16 bits for an element of a tensor. Sixteen blocks of Philox serve 128 neighbours so that sixteen of them have the
// same half of the same word of neighbouring blocks, as vector code makes them.
constexpr std::uint32_t rounding_draw(const Philox& random, std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  return random.block(i / 128 * 16 + i % 16)[i % 128 / 32] >> (i % 32 / 16 * 16) & 0xFFFF;
}
// AdamW's first moment takes them as they are, the second with their bytes exchanged: each is uniform, and the leading
// bits of the two, which decide nearly always, are independent.
constexpr std::uint32_t draw_of_second(std::uint32_t draw) {
  return (draw >> 8 | draw << 8) & 0xFFFF;
}

// Where the elements of a box of a tensor, flattened in C order, lie in the tensor: rows of `width`, `stride` apart.
struct ElementOrder {
  std::int64_t origin = 0;
  std::int64_t width = std::numeric_limits<std::int64_t>::max(), stride = 0;
  constexpr std::int64_t index(std::int64_t i) const { return origin + i / width * stride + i % width; }
};

}  // namespace longhaul
