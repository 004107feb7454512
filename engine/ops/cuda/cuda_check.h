// Errors of the CUDA runtime. A call that fails is not gone on from: the context of a process is lost with its first
// fault, so the process ends and says which call, on which rank, in which step.
#pragma once

#include <cuda_runtime_api.h>

namespace longhaul::cuda {

// Where this process is: set by the training loop, printed by check(). One rank per process.
void set_coordinates(int rank, long long step);

// Ends the process (base/result.h's LH_ASSERT way) unless `status` is cudaSuccess.
void check(cudaError_t status, const char* call);

}  // namespace longhaul::cuda
