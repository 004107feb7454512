#include "engine/ops/cuda/open_gpu.h"

#include "engine/core/cuda/cuda_device.h"
#include "engine/core/cuda/cupti_timer.h"
#include "engine/core/cuda/nvtx_marks.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/gemm_cublaslt.h"

namespace longhaul::cuda {
namespace {

class CudaGpu final : public Gpu {
 public:
  CudaGpu(std::unique_ptr<CudaDevice> device, std::unique_ptr<DeviceGemm> gemm)
      : device_(std::move(device)), gemm_(std::move(gemm)), ops_(*device_, device_->stream(), *gemm_) {}
  Device& device() override { return *device_; }
  const DeviceOps& ops() const override { return ops_; }
  Result<std::unique_ptr<KernelTimer>> time_kernels() override { return make_cupti_timer(); }
  std::unique_ptr<RangeMarks> marks() override { return make_nvtx_marks(); }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<DeviceGemm> gemm_;
  CudaOps ops_;
};

}  // namespace

Result<std::unique_ptr<Gpu>> open_gpu(int local_rank, bool shared) {
  LH_TRY(std::unique_ptr<CudaDevice> device, CudaDevice::open(local_rank, shared));
  LH_TRY(std::unique_ptr<DeviceGemm> gemm, make_cublaslt_gemm(*device));
  return std::unique_ptr<Gpu>(std::make_unique<CudaGpu>(std::move(device), std::move(gemm)));
}

}  // namespace longhaul::cuda
