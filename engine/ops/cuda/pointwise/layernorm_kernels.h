// LayerNorm's forward pass on the device; formulas and arguments as in engine/ops/pointwise/layernorm.h. One block per
// row. Backward: norm_backward.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

template <class T>
struct LayerNormForward {
  const T* a;              // [tokens, hidden]: x, or what b is added to
  const T* b;              // null: x is a
  const T* column_bias;    // [hidden], added as well; null: none
  const T *weight, *bias;  // [hidden]
  T* sum;                  // what is normed; null where b is
  T* y;
  float* statistics;  // [tokens, 2] mean and inverse deviation; null: not wanted
  Index tokens, hidden;
  float eps;
};
template <class T>
void layernorm_forward(cudaStream_t stream, const LayerNormForward<T>& arguments);

}  // namespace longhaul::cuda
