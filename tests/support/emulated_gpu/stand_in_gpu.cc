#include "tests/support/emulated_gpu/stand_in_gpu.h"

#include "base/system/shared_library.h"
#include "engine/ops/cuda/libraries/gemm_cublaslt.h"
#include "tests/support/emulated_gpu/cuda_emulation.h"
#include "tests/support/emulated_gpu/test_gpu.h"

namespace longhaul::testing {
namespace {

const std::string library_path = LONGHAUL_FAKE_CUBLASLT;

// Stays open, so that counts outlive a GPU.
template <class Function>
Function* of_library(const char* name) {
  static const SharedLibrary library = SharedLibrary::open(std::span(&library_path, 1)).value();
  Function* found = nullptr;
  LH_ASSERT(library.find(name, found), name);
  return found;
}

// The library reads and writes where kernels alone may.
class OpenedGemm final : public cuda::DeviceGemm {
 public:
  OpenedGemm(EmulatedDevice& device, std::unique_ptr<cuda::DeviceGemm> gemm)
      : device_(device), gemm_(std::move(gemm)) {}
  void run(cudaStream_t stream, const GemmShape& shape, ConstView a, ConstView b, View c) override {
    const Opened opened(device_);
    gemm_->run(stream, shape, a, b, c);
  }
  bool run_fused(cudaStream_t stream, const GemmShape& shape, ConstView a, ConstView b, View c,
                 const cuda::GemmEpilogue& epilogue) override {
    const Opened opened(device_);
    return gemm_->run_fused(stream, shape, a, b, c, epilogue);
  }
  Fp8Support fp8_support() const override { return gemm_->fp8_support(); }
  std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) override {
    return gemm_->fp8_refusal(shape, operands, c);
  }
  bool run_fp8(cudaStream_t stream, const Fp8Product& shape, const Fp8Operands& operands, View c,
               ConstView bias) override {
    const Opened opened(device_);
    return gemm_->run_fp8(stream, shape, operands, c, bias);
  }

 private:
  struct Opened {
    explicit Opened(EmulatedDevice& device) : device_(device) { device_.open(); }
    ~Opened() { device_.close(); }
    EmulatedDevice& device_;
  };
  EmulatedDevice& device_;
  std::unique_ptr<cuda::DeviceGemm> gemm_;
};

}  // namespace

StandInGpu::StandInGpu(int capability, std::size_t cublas_version) {
  of_library<decltype(fake_cublaslt_become)>("fake_cublaslt_become")(capability, cublas_version);
  gemm_ = std::make_unique<OpenedGemm>(device_, cuda::make_cublaslt_gemm(device_, {capability, library_path}).value());
  ops_ = std::make_unique<cuda::CudaOps>(device_, device_.stream(), *gemm_);
  context_ = std::make_unique<ComputeContext>(device_, *ops_);
}

Result<std::unique_ptr<KernelTimer>> StandInGpu::time_kernels() {
  return make_error(ErrorCode::unavailable, "an emulated GPU over cuBLASLt's stand-in times no kernels");
}

StartedKernels::StartedKernels() {
  cuda::launch_observer() = [this](const char* name, std::int64_t) { names.emplace_back(name); };
}
StartedKernels::~StartedKernels() {
  cuda::launch_observer() = nullptr;
}

FakeCublasLtCounts cublaslt_counts() {
  return of_library<decltype(fake_cublaslt_counts)>("fake_cublaslt_counts")();
}

// Of the tests that run on processors and GPUs alike.
std::shared_ptr<Gpu> open_test_gpu() {
  return std::make_shared<StandInGpu>();
}
const char* test_gpu_name() {
  return "emulated GPU with products of cuBLASLt's stand-in";
}

}  // namespace longhaul::testing
