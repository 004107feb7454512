#include "engine/parallel/box_copy.h"

#include <algorithm>
#include <cstring>

#include "base/result.h"

namespace longhaul {
namespace {

// Where in `to` the row with these leading coordinates begins; -1: outside of it.
std::int64_t row_in(const Box& from, std::int64_t row, const Box& to) {
  std::int64_t at = 0, stride = to.extent.back();
  for (std::size_t dim = from.extent.size() - 1; dim-- > 0;) {
    const std::int64_t index = from.offset[dim] + row % from.extent[dim] - to.offset[dim];
    if (index < 0 || index >= to.extent[dim]) return -1;
    at += index * stride;
    stride *= to.extent[dim];
    row /= from.extent[dim];
  }
  return at;
}

}  // namespace

Box whole_box(const std::vector<std::int64_t>& shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), shape};
}

std::int64_t copy_between_boxes(std::span<const float> piece, const Box& from, std::int64_t flat_begin,
                                std::int64_t flat_end, const Box& to, std::span<float> out) {
  LH_ASSERT(from.extent.size() == to.extent.size() && !from.extent.empty(), "boxes of one tensor");
  LH_ASSERT(static_cast<std::int64_t>(piece.size()) == flat_end - flat_begin &&
                static_cast<std::int64_t>(out.size()) >= to.elements(),
            std::to_string(piece.size()));
  const std::int64_t width = from.extent.back(), shift = from.offset.back() - to.offset.back();
  std::int64_t copied = 0;
  for (std::int64_t at = flat_begin; at < flat_end;) {
    const std::int64_t column = at % width, run = std::min(width - column, flat_end - at);
    // Columns of `to` that this run covers.
    const std::int64_t first = std::max<std::int64_t>(0, column + shift);
    const std::int64_t last = std::min(to.extent.back(), column + shift + run);
    const std::int64_t row = first < last ? row_in(from, at / width, to) : -1;
    if (row >= 0) {
      std::memcpy(out.data() + row + first, piece.data() + (at - flat_begin) + (first - shift - column),
                  static_cast<std::size_t>(last - first) * sizeof(float));
      copied += last - first;
    }
    at += run;
  }
  return copied;
}

}  // namespace longhaul
