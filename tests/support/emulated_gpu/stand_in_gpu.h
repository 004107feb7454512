// An emulated GPU whose products are the engine's own code for cuBLASLt (engine/ops/cuda/libraries/gemm_cublaslt.cc),
// over a library that stands in for it (fake_cublaslt.cc). Everything that a GPU runs but the kernels' and the
// library's own instructions runs here.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/fake_libraries/fake_cublaslt.h"

namespace longhaul::testing {

inline constexpr std::size_t cuda_13_cublas = 130100;

class StandInGpu final : public Gpu {
 public:
  // capability: ten times major plus minor of the GPU that the library answers for. One at a time in a process: the
  // library knows one.
  explicit StandInGpu(int capability = 90, std::size_t cublas_version = cuda_13_cublas);
  Device& device() override { return device_; }
  const DeviceOps& ops() const override { return *ops_; }
  Result<std::unique_ptr<KernelTimer>> time_kernels() override;
  Status use_attention(const AttentionSettings& settings, AttentionObserver observer) override {
    return ops_->ways().use(settings, std::move(observer));
  }
  const ComputeContext& context() const { return *context_; }
  std::int64_t waits() const { return device_.waits(); }

 private:
  EmulatedDevice device_{true};
  std::unique_ptr<cuda::DeviceGemm> gemm_;
  std::unique_ptr<cuda::CudaOps> ops_;
  std::unique_ptr<ComputeContext> context_;
};

// Names of the kernels that this thread starts as long as it lives.
class StartedKernels {
 public:
  StartedKernels();
  ~StartedKernels();
  StartedKernels(const StartedKernels&) = delete;
  StartedKernels& operator=(const StartedKernels&) = delete;
  std::vector<std::string> names;
};

// Of the library, since it was made to answer for the last StandInGpu.
FakeCublasLtCounts cublaslt_counts();

}  // namespace longhaul::testing
