// Products of the rows of many experts with a matrix each (engine/ops/experts/moe_grouped_linear.h), one launch for
// all: blocks find their expert from offsets that lie on the device. Two kinds of kernel: bf16 in tiles for the tensor
// cores, where rows begin at multiples of 16 bytes; and plain f32 arithmetic for everything else.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// out[rows, n] = x[rows, k] W, where W is a matrix of the row's expert: [n, k] when transposed (forward), [k, n]
// otherwise (the input's gradient).
template <class T, class Out>
struct GroupedProduct {
  Index rows, experts, n, k;  // rows: at most
  const std::int64_t* offsets;
  const T *x, *weights;
  Out* out;
};
template <class T, class Out>
void grouped_product(cudaStream_t stream, bool transposed, const GroupedProduct<T, Out>& p);

// dweights[experts, out, in] = or += dy^T x over the rows of each expert, in their order.
template <class T>
struct GroupedWeightGradient {
  Index experts, in, out;
  bool accumulate;
  const std::int64_t* offsets;
  const T *dy, *x;
  float* dweights;
};
template <class T>
void grouped_weight_gradient(cudaStream_t stream, const GroupedWeightGradient<T>& p);

}  // namespace longhaul::cuda
