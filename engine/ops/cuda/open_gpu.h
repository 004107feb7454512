// Room engine/ops/cuda
// The operations on a GPU as host code: which kernel or library each call becomes, and its scratch memory.
// open_gpu.h makes the GPU for main; cuda_ops.h implements engine/ops/device_ops.h with the classes of operations/.
// Only open_gpu.cc includes CUDA's own code, so that tests run the rest with emulated kernels.
// It may not include the processor's operations: a GPU never computes silently on the host.
//
// One GPU with CUDA: the device, cuBLASLt and the kernels.
#pragma once

#include "engine/core/device/device_arena.h"
#include "engine/ops/gpu.h"

namespace longhaul::cuda {

// As OpenGpu says. Errors (invalid_input, unavailable) distinguish: no driver, one too old for this CUDA, no GPU seen,
// no such index, one that this build has no code for, one in exclusive use by another process, one whose memory is in a
// bad state, and no cuBLASLt.
Result<std::unique_ptr<Gpu>> open_gpu(int local_rank, bool shared = false);
// Its memory by another rule than the usual.
Result<std::unique_ptr<Gpu>> open_gpu_with(int local_rank, bool shared, const DeviceArena::Rule& rule);

// Of the GPU that this thread has set, or of the part of it that this process may use.
Result<int> multiprocessors();

}  // namespace longhaul::cuda
