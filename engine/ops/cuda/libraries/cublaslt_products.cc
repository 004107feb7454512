#include "engine/ops/cuda/libraries/cublaslt_products.h"

#include "base/text/text.h"

namespace longhaul::cuda {
namespace {

constexpr std::int64_t workspace_bytes = 64 << 20;  // what cuBLAS itself takes on Hopper is half of it

std::string type_name(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F: return "f32";
    case CUDA_R_16BF: return "bf16";
    case CUDA_R_8F_E4M3: return "e4m3";
    case CUDA_R_8F_E5M2: return "e5m2";
    default: return format("type {}", static_cast<int>(type));
  }
}

bool has_bias(cublasLtEpilogue_t epilogue) {
  return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

}  // namespace

std::uint32_t lt_alignment(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(at & (~at + 1));
}

std::string LtCase::text() const {
  std::string out = format("columns: m={} n={} k={}{} {} x {}{} -> {}", m, n, k, transpose_a ? " A^T" : "",
                           type_name(a), type_name(b), transpose_b ? " B^T" : "", type_name(c));
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) out += format(", epilogue {}", static_cast<int>(epilogue));
  if (scale_a >= 0) out += format(", scales {} and {}", scale_a, scale_b);
  return out;
}

Result<std::unique_ptr<LtProducts>> LtProducts::open(Device& device, const std::string& library) {
  LH_TRY(CublasLt lt, CublasLt::open(library));
  cublasLtHandle_t made = nullptr;
  if (const cublasStatus_t status = lt.create(&made); status != CUBLAS_STATUS_SUCCESS)
    return make_error(ErrorCode::internal, format("cublasLtCreate: {}", lt.status_text(status)),
                      "look whether another program holds the GPU, and whether the driver fits this CUDA");
  Made<cublasLtHandle_t> handle(made, lt.destroy);
  return std::unique_ptr<LtProducts>(new LtProducts(device, std::move(lt), std::move(handle)));
}

LtProducts::LtProducts(Device& device, CublasLt library, Made<cublasLtHandle_t> handle)
    : lt_(std::move(library)), handle_(std::move(handle)), workspace_(device, workspace_bytes) {}

void LtProducts::check(cublasStatus_t status, const char* call, const std::string& what) const {
  LH_ASSERT(status == CUBLAS_STATUS_SUCCESS, format("{}: {} ({})", call, lt_.status_text(status), what));
}

bool LtProducts::has(const LtCase& key, const LtPointers& pointers) {
  return plan(key, pointers).algorithm.has_value();
}

void LtProducts::run(cudaStream_t stream, const LtCase& key, const LtPointers& pointers, float alpha, const void* a,
                     const void* b, float beta, void* c) {
  const Plan& p = plan(key, pointers);
  LH_ASSERT(p.algorithm.has_value(),
            format("cuBLASLt has no algorithm for {}: {}", key.text(), lt_.status_text(p.answer)));
  point(key, p, pointers);
  check(lt_.matmul(handle_.get(), p.operation.get(), &alpha, a, p.a.get(), b, p.b.get(), &beta, c, p.c.get(), c,
                   p.c.get(), &*p.algorithm, workspace_.data(), static_cast<std::size_t>(workspace_.bytes()), stream),
        "cublasLtMatmul", key.text());
}

template <class T>
void LtProducts::set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value,
                     const std::string& what) const {
  check(lt_.desc_set(plan.operation.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute", what);
}

// Pointers differ from call to call of one case; those of the first are there when the algorithm is asked for, which
// looks at their alignment.
void LtProducts::point(const LtCase& key, const Plan& p, const LtPointers& pointers) const {
  const std::string what = key.text();
  if (has_bias(key.epilogue)) set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias, what);
  if (key.ld_before != 0) set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.before, what);
  if (key.scale_a < 0) return;
  set(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.scale_a, what);
  set(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.scale_b, what);
}

auto LtProducts::layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                        const std::string& what) const -> Made<cublasLtMatrixLayout_t> {
  cublasLtMatrixLayout_t made = nullptr;
  check(lt_.layout_create(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), ld),
        "cublasLtMatrixLayoutCreate", what);
  return {made, lt_.layout_destroy};
}

auto LtProducts::plan(const LtCase& key, const LtPointers& pointers) -> Plan& {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  Plan made = describe(key);
  point(key, made, pointers);
  choose(key, made);
  return plans_.emplace(key, std::move(made)).first->second;
}

auto LtProducts::describe(const LtCase& key) const -> Plan {
  const std::string what = key.text();
  cublasLtMatmulDesc_t operation = nullptr;
  check(lt_.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate", what);
  Plan p{{operation, lt_.desc_destroy},
         key.transpose_a ? layout(key.a, key.k, key.m, key.ld_a, what) : layout(key.a, key.m, key.k, key.ld_a, what),
         key.transpose_b ? layout(key.b, key.n, key.k, key.ld_b, what) : layout(key.b, key.k, key.n, key.ld_b, what),
         layout(key.c, key.m, key.n, key.ld_c, what)};
  const auto transposition = [](bool transposed) -> std::int32_t { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(p, CUBLASLT_MATMUL_DESC_TRANSA, transposition(key.transpose_a), what);
  set(p, CUBLASLT_MATMUL_DESC_TRANSB, transposition(key.transpose_b), what);
  if (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(key.epilogue), what);
  if (has_bias(key.epilogue)) set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(key.c), what);
  if (key.ld_before != 0) {
    set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.ld_before, what);
    set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, static_cast<std::int32_t>(key.c), what);
  }
  if (key.scale_a < 0) return p;
  set(p, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(key.fast ? 1 : 0), what);
#if CUBLAS_VERSION >= 120800  // before, there is no such attribute: scales, as by default, are of whole tensors
  if (key.scale_a != 0) set(p, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, static_cast<std::int32_t>(key.scale_a), what);
  if (key.scale_b != 0) set(p, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, static_cast<std::int32_t>(key.scale_b), what);
#endif
  return p;
}

void LtProducts::choose(const LtCase& key, Plan& p) const {
  const std::string what = key.text();
  cublasLtMatmulPreference_t made = nullptr;
  check(lt_.preference_create(&made), "cublasLtMatmulPreferenceCreate", what);
  const Made<cublasLtMatmulPreference_t> preference(made, lt_.preference_destroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(lt_.preference_set(made, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute", what);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment[0]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment[1]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment[2]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment[2]);
  // Not INPLACE, whose parts of a sum are added as they come.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status = lt_.heuristic(handle_.get(), p.operation.get(), p.a.get(), p.b.get(), p.c.get(),
                                              p.c.get(), made, 1, &best, &count);
  p.answer = status != CUBLAS_STATUS_SUCCESS ? status : count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : best.state;
  if (p.answer == CUBLAS_STATUS_SUCCESS) p.algorithm = best.algo;
}

}  // namespace longhaul::cuda
