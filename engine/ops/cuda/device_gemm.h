// Matrix products of a device, for CudaOps: cuBLASLt on a GPU (gemm_cublaslt.cc), the processor's own where tests
// emulate one.
#pragma once

#include "engine/ops/cuda/stream.h"
#include "engine/ops/gemm.h"

namespace longhaul::cuda {

class DeviceGemm {
 public:
  virtual ~DeviceGemm() = default;
  // As gemm.h says; types were checked. Sums in f32.
  virtual void run(cudaStream_t stream, const GemmShape& shape, ConstView a, ConstView b, View c) = 0;
};

}  // namespace longhaul::cuda
