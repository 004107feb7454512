// Does this program hold code that the current GPU can run? Asked before memory is taken; the first kernel would find
// out too late.
#pragma once

#include <cuda_runtime_api.h>

namespace longhaul::cuda {

cudaError_t has_code_for_this_gpu();  // cudaSuccess, or why not

}  // namespace longhaul::cuda
