#include "engine/ops/cuda/libraries/gemm_cublaslt.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/ops/cuda/libraries/cublaslt_products.h"

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

cudaDataType_t type_of(NumberFormat format) {
  LH_ASSERT(format == NumberFormat::e4m3 || format == NumberFormat::e5m2, std::string("codes of ") + name_of(format));
  return format == NumberFormat::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

// cublasLtMatmulMatrixScale_t, by number: older headers lack the later ones.
int mode_of(Fp8Scales scales) {
  switch (scales) {
    case Fp8Scales::tensor: return 0;
    case Fp8Scales::mx: return 2;
    case Fp8Scales::rows: return 4;
    case Fp8Scales::squares: break;
  }
  return 5;
}
#if CUBLAS_VERSION >= 120900
static_assert(CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F == 0 && CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 == 2 &&
              CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F == 4 && CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F == 5);
#endif

// What a GPU and a release multiply: cuBLAS 13, "Scaling Mode Support Overview". Numbers of the release that was
// compiled against: an older one's headers have no attribute for the modes.
Fp8Support support_of(int capability, std::size_t version) {
  Fp8Support support;
  const std::size_t known = std::min<std::size_t>(version, CUBLAS_VERSION);
  support.tensor = capability >= 89;
  support.blocks = capability == 90 && known >= 120900;
  support.mx = capability >= 100 && capability < 120 && known >= 120800;
  const std::string here = format("compute capability {}.{}, cuBLAS {}.{}", capability / 10, capability % 10,
                                  version / 10000, version % 10000 / 100);
  if (!support.tensor)
    support.why_not = "products of eight bits begin with compute capability 8.9; this is " + here;
  else
    support.why_not =
        "scales of 128 are those of compute capability 9.0 and CUDA 12.9, scales of 32 of 10.0 and 11.0 "
        "and CUDA 12.8; this is " +
        here;
  return support;
}

class CublasLtGemm final : public DeviceGemm {
 public:
  CublasLtGemm(std::unique_ptr<LtProducts> products, int capability)
      : products_(std::move(products)), fp8_(support_of(capability, products_->version())) {}

  void run(cudaStream_t stream, const GemmShape& s, ConstView a, ConstView b, View c) override {
    if (s.m == 0 || s.n == 0) return;
    products_->run(stream, case_of(s, a, b, c), {}, s.alpha, b.data(), a.data(), s.beta, c.data());
  }

  // As the library has them: rows of eight elements and memory at multiples of 16 bytes.
  bool run_fused(cudaStream_t stream, const GemmShape& s, ConstView a, ConstView b, View c,
                 const GemmEpilogue& e) override {
    if (s.m == 0 || s.n == 0 || s.k == 0 || s.n % 8 != 0) return false;
    const bool biased = e.what != GemmEpilogue::What::gelu_backward;
    LtPointers pointers;
    if (biased) pointers.bias = e.bias.data();
    if (e.what != GemmEpilogue::What::bias) pointers.before = e.before.data();
    LtCase key = case_of(s, a, b, c);
    key.epilogue = e.what == GemmEpilogue::What::bias        ? CUBLASLT_EPILOGUE_BIAS
                   : e.what == GemmEpilogue::What::bias_gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                                             : CUBLASLT_EPILOGUE_DGELU;
    if (pointers.before != nullptr) key.ld_before = s.n;
    key.alignment[3] = std::min(pointers.bias ? lt_alignment(pointers.bias) : 256U,
                                pointers.before ? lt_alignment(pointers.before) : 256U);
    if (key.alignment[3] < 16 || (biased && e.bias.dtype() != c.dtype())) return false;
    if (pointers.before != nullptr && e.before.dtype() != c.dtype()) return false;
    if (!products_->has(key, pointers)) return false;
    products_->run(stream, key, pointers, s.alpha, b.data(), a.data(), s.beta, c.data());
    return true;
  }

  Fp8Support fp8_support() const override { return fp8_; }

  std::string fp8_refusal(const Fp8Product& s, const Fp8Operands& o, ConstView c) override {
    if (!fp8_.has(s.scales_a) || !fp8_.has(s.scales_b)) return fp8_.why_not;
    if (s.m % 16 != 0 || s.n % 16 != 0 || s.k % 16 != 0 || s.m == 0 || s.n == 0 || s.k == 0)
      return format("{} x {}, summed over {}: not all multiples of 16", s.m, s.n, s.k);
    LtPointers pointers;
    const LtCase key = fp8_case(s, o, c, {}, pointers);
    if (*std::min_element(key.alignment.begin(), key.alignment.end()) < 16)
      return "an operand does not begin at a multiple of 16 bytes";
    if (!products_->has(key, pointers)) return "cuBLASLt has no algorithm for " + key.text();
    return {};
  }

  bool run_fp8(cudaStream_t stream, const Fp8Product& s, const Fp8Operands& o, View c, ConstView bias) override {
    LtPointers pointers;
    // A bias is bf16's, where results are f32 as well; with scales of blocks it is not documented.
    LtCase key = fp8_case(s, o, c, c.dtype() == DType::bf16 ? bias : ConstView(), pointers);
    if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT && (key.alignment[3] < 16 || !products_->has(key, pointers)))
      key = fp8_case(s, o, c, {}, pointers);
    products_->run(stream, key, pointers, 1.0F, o.b.data(), o.a.data(), s.beta, c.data());
    return key.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  }

 private:
  // C^T [n, m] = B A^T in columns: B's codes come first, transposed, A's second and not.
  static LtCase fp8_case(const Fp8Product& s, const Fp8Operands& o, ConstView c, ConstView bias, LtPointers& pointers) {
    LtCase key;
    key.m = s.n, key.n = s.m, key.k = s.k;
    key.ld_a = key.ld_b = s.k, key.ld_c = s.n;
    key.transpose_a = true;
    key.adds = s.beta != 0.0F, key.fast = s.fast;
    key.a = type_of(s.b), key.b = type_of(s.a), key.c = type_of(c.dtype());
    key.scale_a = mode_of(s.scales_b), key.scale_b = mode_of(s.scales_a);
    pointers = {};
    pointers.scale_a = o.scales_b.data(), pointers.scale_b = o.scales_a.data();
    if (!bias.empty() && s.scales_a == Fp8Scales::tensor && s.scales_b == Fp8Scales::tensor)
      key.epilogue = CUBLASLT_EPILOGUE_BIAS, pointers.bias = bias.data();
    const std::uint32_t others = std::min({pointers.bias ? lt_alignment(pointers.bias) : 256U,
                                           lt_alignment(pointers.scale_a), lt_alignment(pointers.scale_b)});
    key.alignment = {lt_alignment(o.b.data()), lt_alignment(o.a.data()), lt_alignment(c.data()), others};
    return key;
  }

  std::unique_ptr<LtProducts> products_;
  Fp8Support fp8_;
};

}  // namespace

Result<std::unique_ptr<DeviceGemm>> make_cublaslt_gemm(Device& device, const CublasLtOptions& options) {
  LH_TRY(std::unique_ptr<LtProducts> products, LtProducts::open(device, options.library));
  return std::unique_ptr<DeviceGemm>(std::make_unique<CublasLtGemm>(std::move(products), options.capability));
}

}  // namespace longhaul::cuda
