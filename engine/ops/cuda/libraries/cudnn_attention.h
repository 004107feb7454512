// Attention through cuDNN's graph API: a plan is asked for once for each case and kept. What a call takes of memory
// beside its tensors is bounded, for which a backward pass may be cut into several calls of one plan.
#pragma once

#include <memory>

#include "engine/core/device/device.h"
#include "engine/ops/cuda/libraries/cudnn_library.h"
#include "engine/ops/cuda/libraries/device_attention.h"

namespace longhaul::cuda {

// Of the gibibyte that a rank sets aside for libraries (contracts/plan/memory_plan.h).
inline constexpr std::int64_t cudnn_attention_bytes_max = std::int64_t{320} << 20;

// `device`: where scratch is taken, borrowed; `stream`: its own. An error: cuDNN cannot be used here.
Result<std::unique_ptr<DeviceAttention>> make_cudnn_attention(Device& device, cudaStream_t stream,
                                                              int compute_capability);
// With a library that was opened, and another bound: for tests.
Result<std::unique_ptr<DeviceAttention>> make_cudnn_attention(Device& device, cudaStream_t stream,
                                                              int compute_capability, Cudnn library,
                                                              std::int64_t bytes_max);

}  // namespace longhaul::cuda
