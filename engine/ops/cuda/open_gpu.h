// One GPU with CUDA: the device, cuBLASLt and the kernels.
#pragma once

#include "engine/ops/gpu.h"

namespace longhaul::cuda {

// As OpenGpu says. Errors (invalid_input, unavailable) tell apart: no driver, one too old for this CUDA, no GPU seen,
// no such index, one that this build has no code for, one in exclusive use by another process, one whose memory is in a
// bad state, and no cuBLASLt.
Result<std::unique_ptr<Gpu>> open_gpu(int local_rank, bool shared = false);

}  // namespace longhaul::cuda
