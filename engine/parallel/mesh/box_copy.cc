#include "engine/parallel/mesh/box_copy.h"

#include <algorithm>
#include <cstring>

#include "base/error/result.h"

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

// What is copied at once: neighbours in both.
template <class To, class From>
void copy_run(const From* from, To* to, std::int64_t count) {
  if constexpr (std::is_same_v<To, From>)
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(To));
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = To(from[i]);
}

void copy_run(const ConstView& from, std::int64_t first, const View& to, std::int64_t at, std::int64_t count) {
  const bool narrow_from = from.dtype() == DType::bf16, narrow_to = to.dtype() == DType::bf16;
  if (narrow_from && narrow_to) return copy_run(from.as<bf16>() + first, to.as<bf16>() + at, count);
  if (narrow_from) return copy_run(from.as<bf16>() + first, to.as<float>() + at, count);
  if (narrow_to) return copy_run(from.as<float>() + first, to.as<bf16>() + at, count);
  copy_run(from.as<float>() + first, to.as<float>() + at, count);
}

}  // namespace

Box whole_box(const std::vector<std::int64_t>& shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), shape};
}

std::int64_t copy_between_boxes(ConstView piece, const BoxRange& from, const BoxRange& to, View out) {
  const Box &source = from.box, &target = to.box;
  LH_ASSERT(source.extent.size() == target.extent.size() && !source.extent.empty(), "boxes of one tensor");
  LH_ASSERT(piece.size() == from.end - from.begin && out.size() >= to.end - to.begin, std::to_string(piece.size()));
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
      copy_run(piece, at - from.begin + (first - shift - column), out, row + first - to.begin, last - first);
      copied += last - first;
    }
    at += run;
  }
  return copied;
}

std::int64_t copy_between_boxes(ConstView piece, const Box& from, std::int64_t flat_begin, std::int64_t flat_end,
                                const Box& to, View out) {
  return copy_between_boxes(piece, {from, flat_begin, flat_end}, {to, 0, to.elements()}, out);
}

}  // namespace longhaul
