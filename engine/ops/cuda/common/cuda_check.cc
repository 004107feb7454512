#include "engine/ops/cuda/common/cuda_check.h"

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul::cuda {

void check(cudaError_t status, const char* call) {
  LH_ASSERT(status == cudaSuccess, format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

}  // namespace longhaul::cuda
