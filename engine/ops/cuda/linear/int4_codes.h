// Scales and zeros of codes of four bits, in kernels.
#pragma once

#include "engine/ops/cuda/common/device_code.h"
#include "engine/ops/cuda/linear/weight_only_kernels.h"

namespace longhaul::cuda {

__device__ inline float scale_at(const Int4Rows& w, Index at) {
  return w.scales_are_bf16 ? to_float(static_cast<const bf16*>(w.scales)[at]) : static_cast<const float*>(w.scales)[at];
}
__device__ inline float zero_at(const Int4Rows& w, Index at) {
  return w.zeros != nullptr ? static_cast<float>(w.zeros[at]) : 8.0F;
}

}  // namespace longhaul::cuda
