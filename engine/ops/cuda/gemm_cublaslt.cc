#include "engine/ops/cuda/gemm_cublaslt.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <type_traits>

#include "base/text.h"
#include "engine/ops/cuda/cublaslt_library.h"

namespace longhaul::cuda {
namespace {

constexpr std::int64_t workspace_bytes = 64 << 20;  // what cuBLAS itself takes on Hopper is half of it

// Ends what one of the library's functions made.
template <class Handle>
using Made = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
using LtHandle = Made<cublasLtHandle_t>;
using Operation = Made<cublasLtMatmulDesc_t>;
using Layout = Made<cublasLtMatrixLayout_t>;
using Preference = Made<cublasLtMatmulPreference_t>;

cudaDataType_t type_of(DType dtype) {
  LH_ASSERT(dtype == DType::f32 || dtype == DType::bf16, std::string("a product of ") + dtype_name(dtype));
  return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(at & (~at + 1));
}

// What an algorithm is chosen by.
struct Case {
  std::array<std::int64_t, 6> sizes;  // m, n, k and the strides
  bool transpose_a, transpose_b, adds;
  DType ab, c;
  std::array<std::uint32_t, 3> alignment;
  auto operator<=>(const Case&) const = default;
  std::string text() const {
    return format("m={} n={} k={}{}{} {} -> {}", sizes[0], sizes[1], sizes[2], transpose_a ? " A^T" : "",
                  transpose_b ? " B^T" : "", dtype_name(ab), dtype_name(c));
  }
};

struct Plan {
  Operation operation;
  Layout first, second, result;  // of the columns' order: B, A, C
  cublasLtMatmulAlgo_t algorithm;
};

// Rows here are columns there: row-major C = A B is column-major C^T = B^T A^T, so that B comes first and nothing
// moves.
class CublasLtGemm final : public DeviceGemm {
 public:
  CublasLtGemm(Device& device, CublasLt library, LtHandle handle)
      : lt_(std::move(library)), handle_(std::move(handle)), workspace_(device, workspace_bytes) {}

  void run(cudaStream_t stream, const GemmShape& s, ConstView a, ConstView b, View c) override {
    if (s.m == 0 || s.n == 0) return;
    const Case key{{s.m, s.n, s.k, stride(s.row_stride_a, s.transpose_a ? s.m : s.k),
                    stride(s.row_stride_b, s.transpose_b ? s.k : s.n), stride(s.row_stride_c, s.n)},
                   s.transpose_a,
                   s.transpose_b,
                   s.beta != 0.0F,
                   a.dtype(),
                   c.dtype(),
                   {alignment_of(a.data()), alignment_of(b.data()), alignment_of(c.data())}};
    LH_ASSERT(a.dtype() == b.dtype() && (c.dtype() == a.dtype() || c.dtype() == DType::f32), key.text());
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, plan(key)).first;
    const Plan& p = found->second;
    check(lt_.matmul(handle_.get(), p.operation.get(), &s.alpha, b.data(), p.first.get(), a.data(), p.second.get(),
                     &s.beta, c.data(), p.result.get(), c.data(), p.result.get(), &p.algorithm, workspace_.data(),
                     static_cast<std::size_t>(workspace_.bytes()), stream),
          "cublasLtMatmul", key.text());
  }

 private:
  static std::int64_t stride(std::int64_t given, std::int64_t tight) { return given == 0 ? tight : given; }

  void check(cublasStatus_t status, const char* call, const std::string& what) const {
    LH_ASSERT(status == CUBLAS_STATUS_SUCCESS, format("{}: {} ({})", call, lt_.status_text(status), what));
  }

  Layout layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld, const std::string& what) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(lt_.layout_create(&made, type_of(dtype), static_cast<std::uint64_t>(rows),
                            static_cast<std::uint64_t>(columns), ld),
          "cublasLtMatrixLayoutCreate", what);
    return Layout(made, lt_.layout_destroy);
  }

  Plan plan(const Case& key) const {
    const std::string what = key.text();
    const auto [m, n, k, lda, ldb, ldc] = key.sizes;
    cublasLtMatmulDesc_t operation = nullptr;
    check(lt_.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate", what);
    Operation owned(operation, lt_.desc_destroy);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check(lt_.desc_set(operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute", what);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a);
    Plan p{std::move(owned),
           key.transpose_b ? layout(key.ab, k, n, ldb, what) : layout(key.ab, n, k, ldb, what),
           key.transpose_a ? layout(key.ab, m, k, lda, what) : layout(key.ab, k, m, lda, what),
           layout(key.c, n, m, ldc, what),
           {}};
    choose(key, p);
    return p;
  }

  void choose(const Case& key, Plan& p) const {
    const std::string what = key.text();
    cublasLtMatmulPreference_t made = nullptr;
    check(lt_.preference_create(&made), "cublasLtMatmulPreferenceCreate", what);
    const Preference preference(made, lt_.preference_destroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(lt_.preference_set(made, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute", what);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment[2]);
    // Not INPLACE, whose parts of a sum are added as they come.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status = lt_.heuristic(handle_.get(), p.operation.get(), p.first.get(), p.second.get(),
                                                p.result.get(), p.result.get(), made, 1, &best, &count);
    check(count == 0 && status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
          "cublasLtMatmulAlgoGetHeuristic", what);
    p.algorithm = best.algo;
  }

  CublasLt lt_;  // before what it made
  LtHandle handle_;
  DeviceMemory workspace_;
  std::map<Case, Plan> plans_;
};

}  // namespace

Result<std::unique_ptr<DeviceGemm>> make_cublaslt_gemm(Device& device) {
  LH_TRY(CublasLt library, CublasLt::open());
  cublasLtHandle_t made = nullptr;
  if (const cublasStatus_t status = library.create(&made); status != CUBLAS_STATUS_SUCCESS)
    return make_error(ErrorCode::internal, format("cublasLtCreate: {}", library.status_text(status)),
                      "look whether another program holds the GPU, and whether the driver fits this CUDA");
  LtHandle handle(made, library.destroy);
  return std::unique_ptr<DeviceGemm>(std::make_unique<CublasLtGemm>(device, std::move(library), std::move(handle)));
}

}  // namespace longhaul::cuda
