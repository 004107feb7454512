// The backward pass of both norms, which differ in whether rows lose their mean. With n = (x - mean) r (RMSNorm: x r)
// and g = dy weight:
//   dx = r (g - mean(g) - n mean(g n))       LayerNorm
//   dx = r (g - n mean(g n))                 RMSNorm
//   dweight += sum over rows of dy n, dbias += sum over rows of dy
// Rows go to the blocks in turn. A thread has the same columns of each row, so that it alone adds up their gradients;
// the sums of all blocks are added in a fixed order.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

template <class T>
struct NormBackward {
  const T *dy, *x, *weight;  // [tokens, hidden], [tokens, hidden], [hidden]
  const float* statistics;   // LayerNorm: [tokens, 2] mean and r; RMSNorm: [tokens] r
  T* dx;                     // [tokens, hidden]
  float *dweight, *dbias;    // [hidden] += ; dweight null: neither is wanted; RMSNorm has no dbias
  float* parts;              // scratch: [norm_backward_blocks(tokens, hidden), 1 or 2 (LayerNorm), hidden]
  Index tokens, hidden;
  bool accumulate_dx;
};

Index norm_backward_blocks(Index tokens, Index hidden);

// centred: LayerNorm.
template <class T, bool centred>
void norm_backward(cudaStream_t stream, const NormBackward<T>& arguments);

}  // namespace longhaul::cuda
