// The operations on a GPU: what each needs of scratch memory, and which kernel it is. Host code of no CUDA header, so
// that tests run the same with emulated kernels (tests/support/emulated_gpu/emulated_device.h).
#pragma once

#include "engine/ops/cuda/operations/cuda_attention_ops.h"
#include "engine/ops/cuda/operations/cuda_expert_ops.h"
#include "engine/ops/cuda/operations/cuda_linear_ops.h"
#include "engine/ops/cuda/operations/cuda_loss_ops.h"
#include "engine/ops/cuda/operations/cuda_norm_ops.h"
#include "engine/ops/cuda/operations/cuda_pointwise_ops.h"
#include "engine/ops/device_ops.h"

namespace longhaul::cuda {

class CudaOps final : private CudaWork,
                      public DeviceOps,
                      public CudaPointwiseOps,
                      public CudaNormOps,
                      public CudaLinearOps,
                      public CudaAttentionOps,
                      public CudaLossOps,
                      public CudaExpertOps {
 public:
  // Borrowed: device, gemm. Kernels and copies of the device go into `stream`.
  CudaOps(Device& of_device, cudaStream_t into, DeviceGemm& products)
      : CudaWork(of_device, into),
        CudaPointwiseOps(work()),
        CudaNormOps(work()),
        CudaLinearOps(work(), products, *this),
        CudaAttentionOps(work()),
        CudaLossOps(work(), *this),
        CudaExpertOps(work()) {}

 private:
  const CudaWork& work() const { return *this; }
};

}  // namespace longhaul::cuda
