// LayerNorm on the device; formulas and arguments as in engine/ops/layernorm.h. Blocks, rows and `parts` as in
// norm_kernels.h, but that `parts` [layernorm_backward_blocks(tokens), 2, hidden] holds the weight's and the bias's.
#pragma once

#include "engine/ops/cuda/stream.h"

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

template <class T>
struct LayerNormBackward {
  const T *dy, *x, *weight;
  const float* statistics;
  T* dx;
  float *dweight, *dbias;  // += ; null, both: not wanted
  float* parts;
  Index tokens, hidden;
  bool accumulate_dx;
};
Index layernorm_backward_blocks(Index tokens);
template <class T>
void layernorm_backward(cudaStream_t stream, const LayerNormBackward<T>& arguments);

}  // namespace longhaul::cuda
