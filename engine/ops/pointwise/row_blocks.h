// Rows of one matrix into rows of another whose widths differ: slices of fused activations, packed for a message and
// back.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// `columns` elements of each of `rows` rows; strides are elements from one row to the next.
struct RowBlockShape {
  std::int64_t rows = 0, columns = 0, from_stride = 0, to_stride = 0;
};

// f32 and bf16, either way round (to nearest even). Views begin at the first row's first element.
void copy_rows(const ComputeContext& context, const RowBlockShape& shape, ConstView from, View to);
// to += from, f32 sums of rows of any float type.
void add_rows(const ComputeContext& context, const RowBlockShape& shape, ConstView from, std::span<float> to);

// A flat view of the elements of x from `begin` on.
template <bool is_const>
BasicView<is_const> elements_from(const BasicView<is_const>& x, std::int64_t begin) {
  using Byte = std::conditional_t<is_const, const std::byte, std::byte>;
  return BasicView<is_const>(static_cast<Byte*>(x.data()) + begin * dtype_bytes(x.dtype()), x.dtype(),
                             Shape{x.size() - begin});
}

}  // namespace longhaul
