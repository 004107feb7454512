// Matrix products by cuBLASLt. An algorithm is asked for once for each case (sizes, types, strides, alignment) and
// kept. Deterministic: algorithms whose sums depend on who comes first (atomics) are not taken, so that the same case
// gives the same bits, on the same kind of GPU with the same cuBLAS.
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/core/device.h"
#include "engine/ops/cuda/device_gemm.h"

namespace longhaul::cuda {

// `device`: where workspace is taken, borrowed. An error: cuBLASLt cannot be used here.
Result<std::unique_ptr<DeviceGemm>> make_cublaslt_gemm(Device& device);

}  // namespace longhaul::cuda
