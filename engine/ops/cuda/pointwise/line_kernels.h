// Numbers of a matrix's rows or columns (engine/ops/pointwise/matrix_lines.h), on the device. Matrices are
// [rows, columns], all is f32; sums of products are in f64, in a fixed order.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

struct LineDots {
  Index rows, columns;
  const float *a, *b;
  bool accumulate;
  float* out;
};
void dots_of_rows(cudaStream_t stream, const LineDots& arguments);
void dots_of_columns(cudaStream_t stream, const LineDots& arguments);

// matrix *= the factor of its row, or of its column.
void scale_rows(cudaStream_t stream, Index rows, Index columns, const float* factors, float* matrix);
void scale_columns(cudaStream_t stream, Index rows, Index columns, const float* factors, float* matrix);
// out = or += x / sqrt(squares), n of each.
void divide_by_roots(cudaStream_t stream, Index n, const float* x, const float* squares, bool accumulate, float* out);

}  // namespace longhaul::cuda
