// Moves elements of one tensor between arrays that hold different boxes of it.
#pragma once

#include <cstdint>

#include "contracts/model/parameter_list.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// A box of a tensor, flattened in C order, or a range of it.
struct BoxRange {
  const Box& box;
  std::int64_t begin = 0, end = 0;
};

// `piece` holds the elements of `from`, `out` those of `to`; both boxes lie in the same global tensor. Copies what is
// in both; says how many elements that were. Either may be f32 or bf16; from f32 to bf16 is to nearest.
std::int64_t copy_between_boxes(ConstView piece, const BoxRange& from, const BoxRange& to, View out);
// All of `to`.
std::int64_t copy_between_boxes(ConstView piece, const Box& from, std::int64_t flat_begin, std::int64_t flat_end,
                                const Box& to, View out);

// The whole of a tensor of this shape.
Box whole_box(const std::vector<std::int64_t>& shape);

}  // namespace longhaul
