#include "engine/ops/cuda/cuda_check.h"

#include "base/result.h"
#include "base/text.h"

namespace longhaul::cuda {

void check(cudaError_t status, const char* call) {
  LH_ASSERT(status == cudaSuccess, format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

}  // namespace longhaul::cuda
