#include "engine/ops/cuda/open_gpu.h"

#include "engine/core/cuda/cuda_device.h"
#include "engine/core/cuda/cupti_timer.h"
#include "engine/core/cuda/nvtx_marks.h"
#include "engine/ops/cuda/common/cuda_check.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/libraries/gemm_cublaslt.h"
#ifdef LONGHAUL_HAVE_CUDNN
#include "engine/ops/cuda/libraries/cudnn_attention.h"
#endif

namespace longhaul::cuda {
namespace {

#ifdef LONGHAUL_HAVE_CUDNN
Result<std::unique_ptr<DeviceAttention>> open_attention(CudaDevice& device) {
  int number = 0, major = 0, minor = 0;
  check(cudaGetDevice(&number), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number), "cudaDeviceGetAttribute");
  return make_cudnn_attention(device, device.stream(), 10 * major + minor);
}
#else
Result<std::unique_ptr<DeviceAttention>> open_attention(CudaDevice&) {
  return make_error(ErrorCode::unavailable, "this program was built without cuDNN's headers",
                    "build it where cudnn_graph.h is");
}
#endif

class CudaGpu final : public Gpu {
 public:
  CudaGpu(std::unique_ptr<CudaDevice> device, std::unique_ptr<DeviceGemm> gemm)
      : device_(std::move(device)), gemm_(std::move(gemm)), ops_(*device_, device_->stream(), *gemm_) {
    ops_.ways().set_library([this] { return open_attention(*device_); });
  }
  Device& device() override { return *device_; }
  const DeviceOps& ops() const override { return ops_; }
  Status use_attention(const AttentionSettings& settings, AttentionObserver observer) override {
    return ops_.ways().use(settings, std::move(observer));
  }
  Result<std::unique_ptr<KernelTimer>> time_kernels() override { return make_cupti_timer(); }
  std::unique_ptr<RangeMarks> marks() override { return make_nvtx_marks(); }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<DeviceGemm> gemm_;
  CudaOps ops_;
};

}  // namespace

Result<std::unique_ptr<Gpu>> open_gpu(int local_rank, bool shared) {
  return open_gpu_with(local_rank, shared, DeviceArena::Rule());
}

Result<std::unique_ptr<Gpu>> open_gpu_with(int local_rank, bool shared, const DeviceArena::Rule& rule) {
  LH_TRY(std::unique_ptr<CudaDevice> device, CudaDevice::open(local_rank, shared, rule));
  LH_TRY(std::unique_ptr<DeviceGemm> gemm, make_cublaslt_gemm(*device, {device->capability(), {}}));
  return std::unique_ptr<Gpu>(std::make_unique<CudaGpu>(std::move(device), std::move(gemm)));
}

Result<int> multiprocessors() {
  int number = 0, count = 0;
  cudaError_t status = cudaGetDevice(&number);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, number);
  if (status != cudaSuccess)
    return make_error(ErrorCode::internal, std::string("cudaDeviceGetAttribute: ") + cudaGetErrorString(status));
  return count;
}

}  // namespace longhaul::cuda
