// RMSNorm's forward pass on the device; formulas and arguments as in engine/ops/pointwise/rmsnorm.h. One block per row.
// Backward: norm_backward.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"

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

}  // namespace longhaul::cuda
