// Matrix products by cuBLASLt (cublaslt_products.h): f32, bf16 and, where the GPU multiplies them, numbers of eight
// bits; bias and GELU fused into the product.
#pragma once

#include <memory>
#include <string>

#include "base/error/result.h"
#include "engine/core/device/device.h"
#include "engine/ops/cuda/libraries/device_gemm.h"

namespace longhaul::cuda {

struct CublasLtOptions {
  int capability = 80;  // of the GPU: ten times major plus minor
  std::string library;  // empty: the release that was compiled against
};

// `device`: where workspace is taken, borrowed. An error: cuBLASLt cannot be used here.
Result<std::unique_ptr<DeviceGemm>> make_cublaslt_gemm(Device& device, const CublasLtOptions& options);

}  // namespace longhaul::cuda
