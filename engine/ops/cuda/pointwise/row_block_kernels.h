// Rows of one matrix into rows of another (engine/ops/pointwise/row_blocks.h), on the device. T, S: f32 or bf16.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// `columns` elements of each of `rows` rows, which begin `from_stride` and `to_stride` elements apart.
template <class T, class S>
void copy_rows(cudaStream_t stream, Index rows, Index columns, Index from_stride, Index to_stride, const T* from,
               S* to);
// to += from.
template <class T>
void add_rows(cudaStream_t stream, Index rows, Index columns, Index from_stride, Index to_stride, const T* from,
              float* to);

}  // namespace longhaul::cuda
