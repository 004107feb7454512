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

std::int64_t copy_between_boxes(std::span<const float> piece, const BoxRange& from, const BoxRange& to,
                                std::span<float> out) {
  const Box &source = from.box, &target = to.box;
  LH_ASSERT(source.extent.size() == target.extent.size() && !source.extent.empty(), "boxes of one tensor");
  LH_ASSERT(static_cast<std::int64_t>(piece.size()) == from.end - from.begin &&
                static_cast<std::int64_t>(out.size()) >= to.end - to.begin,
            std::to_string(piece.size()));
  const std::int64_t width = source.extent.back(), shift = source.offset.back() - target.offset.back();
  std::int64_t copied = 0;
  for (std::int64_t at = from.begin; at < from.end;) {
    const std::int64_t column = at % width, run = std::min(width - column, from.end - at);
    // Columns of the target that this run covers, then their places in it.
    std::int64_t first = std::max<std::int64_t>(0, column + shift);
    std::int64_t last = std::min(target.extent.back(), column + shift + run);
    const std::int64_t row = first < last ? row_in(source, at / width, target) : -1;
    if (row >= 0) {
      first = std::max(first, to.begin - row);
      last = std::min(last, to.end - row);
    }
    if (row >= 0 && first < last) {
      std::memcpy(out.data() + (row + first - to.begin), piece.data() + (at - from.begin) + (first - shift - column),
                  static_cast<std::size_t>(last - first) * sizeof(float));
      copied += last - first;
    }
    at += run;
  }
  return copied;
}

std::int64_t copy_between_boxes(std::span<const float> piece, const Box& from, std::int64_t flat_begin,
                                std::int64_t flat_end, const Box& to, std::span<float> out) {
  return copy_between_boxes(piece, {from, flat_begin, flat_end}, {to, 0, to.elements()}, out);
}

}  // namespace longhaul
