// Errors of the CUDA runtime. A call that fails is not gone on from: the context of a process is lost with its first
// fault, so the process ends and says which call or kernel it was.
#pragma once

#include <cuda_runtime_api.h>

namespace longhaul::cuda {

// Ends the process, as a broken invariant does, unless `status` is cudaSuccess.
void check(cudaError_t status, const char* call);

}  // namespace longhaul::cuda
