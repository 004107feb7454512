// RMSNorm on the device; formulas and arguments as in engine/ops/rmsnorm.h. One block per row in the forward pass. The
// backward pass reads each row twice (the second time from the cache) and keeps the weight's gradient in registers;
// `parts` [rmsnorm_backward_blocks(tokens), hidden] f32 is scratch, added up in a fixed order.
#pragma once

#include "engine/ops/cuda/stream.h"

namespace longhaul::cuda {

template <class T>
struct RmsNormForward {
  const T* a;       // [tokens, hidden]: x, or what b is added to
  const T* b;       // null: x is a
  const T* weight;  // [hidden]
  T* sum;           // a + b; null where b is
  T* y;             // [tokens, hidden]
  float* inv_rms;   // [tokens] or null
  Index tokens, hidden;
  float eps;
};
template <class T>
void rmsnorm_forward(cudaStream_t stream, const RmsNormForward<T>& arguments);

template <class T>
struct RmsNormBackward {
  const T *dy, *x, *weight;
  const float* inv_rms;
  T* dx;
  float* dweight;  // += ; null: not wanted
  float* parts;
  Index tokens, hidden;
  bool accumulate_dx;
};
Index rmsnorm_backward_blocks(Index tokens);
template <class T>
void rmsnorm_backward(cudaStream_t stream, const RmsNormBackward<T>& arguments);

}  // namespace longhaul::cuda
