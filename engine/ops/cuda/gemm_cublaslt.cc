#include "engine/ops/cuda/gemm_cublaslt.h"

#include <algorithm>

#include "base/text.h"
#include "engine/ops/cuda/cublaslt_products.h"

namespace longhaul::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
  LH_ASSERT(dtype == DType::f32 || dtype == DType::bf16, std::string("a product of ") + dtype_name(dtype));
  return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}
std::int64_t stride_of(std::int64_t given, std::int64_t tight) {
  return given == 0 ? tight : given;
}

// Rows here are columns there: row-major C = A B is column-major C^T = B^T A^T, so that B comes first and nothing
// moves.
LtCase case_of(const GemmShape& s, ConstView a, ConstView b, ConstView c) {
  LtCase key;
  key.m = s.n, key.n = s.m, key.k = s.k;
  key.ld_a = stride_of(s.row_stride_b, s.transpose_b ? s.k : s.n);
  key.ld_b = stride_of(s.row_stride_a, s.transpose_a ? s.m : s.k);
  key.ld_c = stride_of(s.row_stride_c, s.n);
  key.transpose_a = s.transpose_b, key.transpose_b = s.transpose_a;
  key.adds = s.beta != 0.0F;
  key.a = type_of(b.dtype()), key.b = type_of(a.dtype()), key.c = type_of(c.dtype());
  key.alignment = {lt_alignment(b.data()), lt_alignment(a.data()), lt_alignment(c.data()), 0};
  LH_ASSERT(a.dtype() == b.dtype() && (c.dtype() == a.dtype() || c.dtype() == DType::f32), key.text());
  return key;
}

class CublasLtGemm final : public DeviceGemm {
 public:
  explicit CublasLtGemm(std::unique_ptr<LtProducts> products) : products_(std::move(products)) {}

  void run(cudaStream_t stream, const GemmShape& s, ConstView a, ConstView b, View c) override {
    if (s.m == 0 || s.n == 0) return;
    products_->run(stream, case_of(s, a, b, c), {}, s.alpha, b.data(), a.data(), s.beta, c.data());
  }

 private:
  std::unique_ptr<LtProducts> products_;
};

}  // namespace

Result<std::unique_ptr<DeviceGemm>> make_cublaslt_gemm(Device& device, const CublasLtOptions& options) {
  LH_TRY(std::unique_ptr<LtProducts> products, LtProducts::open(device, options.library));
  return std::unique_ptr<DeviceGemm>(std::make_unique<CublasLtGemm>(std::move(products)));
}

}  // namespace longhaul::cuda
