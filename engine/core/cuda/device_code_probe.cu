#include "engine/core/cuda/device_code_probe.h"

namespace longhaul::cuda {
namespace {
__global__ void probe_kernel() {}
}  // namespace

cudaError_t has_code_for_this_gpu() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(probe_kernel));
}

}  // namespace longhaul::cuda
