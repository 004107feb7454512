// Is what stands in for cuBLASLt as strict as it has to be? Its attributes are held to the real library's where that is
// installed: descriptions need no GPU.
#include <cublasLt.h>
#include <doctest/doctest.h>

#include "base/text/text.h"
#include "engine/ops/cuda/libraries/cublaslt_library.h"
#include "tests/support/emulated_gpu/stand_in_gpu.h"

using namespace longhaul;
using cuda::CublasLt;

namespace {

CublasLt stand_in() {
  return CublasLt::open(LONGHAUL_FAKE_CUBLASLT).value();
}

// One status for each attribute and size.
struct Answers {
  std::vector<int> description, layout, preference;
};
Answers ask(const CublasLt& lt) {
  Answers answers;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(lt.desc_create(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(lt.layout_create(&layout, CUDA_R_16BF, 16, 32, 16) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(lt.preference_create(&preference) == CUBLAS_STATUS_SUCCESS);
  const std::uint64_t value[2] = {16, 0};
  for (int attribute = -1; attribute < 48; ++attribute)
    for (const std::size_t bytes : {0, 1, 2, 4, 8, 16}) {
      answers.description.push_back(
          lt.desc_set(description, static_cast<cublasLtMatmulDescAttributes_t>(attribute), value, bytes));
      answers.layout.push_back(
          lt.layout_set(layout, static_cast<cublasLtMatrixLayoutAttribute_t>(attribute), value, bytes));
      answers.preference.push_back(
          lt.preference_set(preference, static_cast<cublasLtMatmulPreferenceAttributes_t>(attribute), value, bytes));
    }
  CHECK(lt.desc_set(description, CUBLASLT_MATMUL_DESC_TRANSA, nullptr, 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(lt.desc_set(nullptr, CUBLASLT_MATMUL_DESC_TRANSA, value, 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(lt.desc_destroy(description) == CUBLAS_STATUS_SUCCESS);
  CHECK(lt.layout_destroy(layout) == CUBLAS_STATUS_SUCCESS);
  CHECK(lt.preference_destroy(preference) == CUBLAS_STATUS_SUCCESS);
  return answers;
}

// A product with everything right, to be spoilt: D [32, 48] = A^T B, sums over 128.
struct Asked {
  int a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E4M3, c = CUDA_R_32F;
  std::int64_t m = 32, n = 48, k = 128;
  std::int64_t ld_a = 0;  // 0: tight
  bool transpose_a = true, transpose_b = false, scaled = true;
  int mode_a = 0, mode_b = 0;
  std::int8_t fast = 0;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int bias_type = -1;
  bool bias = true, before = true;
  std::int64_t ld_before = 32;
  std::uint32_t alignment = 16;
};

class Asking {
 public:
  explicit Asking(int capability = 90, std::size_t version = testing::cuda_13_cublas)
      : gpu_(capability, version), lt_(stand_in()) {
    REQUIRE(lt_.create(&handle_) == CUBLAS_STATUS_SUCCESS);
  }
  ~Asking() { (void)lt_.destroy(handle_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  cublasStatus_t operator()(const Asked& q) {
    cublasLtMatmulDesc_t d = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    (void)lt_.desc_create(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const auto layout = [&](cublasLtMatrixLayout_t& to, int type, std::int64_t rows, std::int64_t columns,
                            std::int64_t ld) {
      (void)lt_.layout_create(&to, static_cast<cudaDataType_t>(type), static_cast<std::uint64_t>(rows),
                              static_cast<std::uint64_t>(columns), ld == 0 ? rows : ld);
    };
    layout(a, q.a, q.transpose_a ? q.k : q.m, q.transpose_a ? q.m : q.k, q.ld_a);
    layout(b, q.b, q.transpose_b ? q.n : q.k, q.transpose_b ? q.k : q.n, 0);
    layout(c, q.c, q.m, q.n, 0);
    const auto set = [&](cublasLtMatmulDescAttributes_t what, auto value) {
      REQUIRE(lt_.desc_set(d, what, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{q.transpose_a});
    set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t{q.transpose_b});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, q.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{q.bias_type});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, q.ld_before);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, q.fast);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, std::int32_t{q.mode_a});
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, std::int32_t{q.mode_b});
    const void* const somewhere = reinterpret_cast<const void*>(std::uintptr_t{4096});
    if (q.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
    if (q.before) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    if (q.scaled) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    if (q.scaled) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
    (void)lt_.preference_create(&preference);
    for (int i = 0; i < 4; ++i)
      (void)lt_.preference_set(
          preference, static_cast<cublasLtMatmulPreferenceAttributes_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
          &q.alignment, sizeof q.alignment);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status = lt_.heuristic(handle_, d, a, b, c, c, preference, 1, &result, &count);
    CHECK((status == CUBLAS_STATUS_SUCCESS) == (count == 1));
    (void)lt_.desc_destroy(d), (void)lt_.preference_destroy(preference);
    for (cublasLtMatrixLayout_t one : {a, b, c}) (void)lt_.layout_destroy(one);
    return status;
  }

 private:
  testing::StandInGpu gpu_;
  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
};

constexpr auto yes = CUBLAS_STATUS_SUCCESS;
constexpr auto wrong = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto never = CUBLAS_STATUS_NOT_SUPPORTED;

}  // namespace

TEST_CASE("attributes: the stand-in takes what the real library takes, in the same sizes, and refuses the rest alike") {
  const Answers fake = ask(stand_in());
  const Result<CublasLt> real = CublasLt::open();
  if (!real.ok() || real->version() < 130000) {
    MESSAGE("skipped: no cuBLASLt of CUDA 13 here to compare with");
    return;
  }
  const Answers wanted = ask(*real);
  CHECK(fake.description == wanted.description);
  CHECK(fake.layout == wanted.layout);
  CHECK(fake.preference == wanted.preference);
}

TEST_CASE("products of eight bits: what has to hold on Hopper") {
  Asking ask;
  CHECK(ask({}) == yes);
  CHECK(ask({.a = CUDA_R_8F_E5M2}) == yes);
  CHECK(ask({.a = CUDA_R_8F_E5M2, .b = CUDA_R_8F_E5M2}) == never);
  CHECK(ask({.b = CUDA_R_16BF}) == never);
  CHECK(ask({.c = CUDA_R_16BF}) == yes);
  CHECK(ask({.c = CUDA_R_8F_E4M3}) == never);
  CHECK(ask({.transpose_a = false}) == never);  // A transposed and B not, or nothing
  CHECK(ask({.transpose_b = true}) == never);
  CHECK(ask({.m = 40}) == never);
  CHECK(ask({.n = 24}) == never);
  CHECK(ask({.k = 120}) == never);
  CHECK(ask({.ld_a = 136}) == never);
  CHECK(ask({.ld_a = 112}) == wrong);
  CHECK(ask({.scaled = false}) == wrong);
  CHECK(ask({.alignment = 8}) == never);
  CHECK(ask({.alignment = 12}) == wrong);
  CHECK(ask({.epilogue = CUBLASLT_EPILOGUE_BIAS}) == never);  // of f32, it would be bf16's
  CHECK(ask({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_type = CUDA_R_16BF}) == yes);
  CHECK(ask({.c = CUDA_R_16BF, .epilogue = CUBLASLT_EPILOGUE_BIAS}) == yes);
  CHECK(ask({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = false}) == wrong);
  CHECK(ask({.epilogue = CUBLASLT_EPILOGUE_DGELU}) == never);
}

TEST_CASE("scales of blocks: which GPU, which release, and what goes together") {
  const int along = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, square = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  const int mx = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  {
    Asking hopper;
    CHECK(hopper({.mode_a = along, .mode_b = along}) == yes);
    CHECK(hopper({.mode_a = square, .mode_b = along}) == yes);
    CHECK(hopper({.mode_a = along, .mode_b = square}) == yes);
    CHECK(hopper({.mode_a = square, .mode_b = square}) == never);
    CHECK(hopper({.mode_a = along, .mode_b = 0}) == never);
    CHECK(hopper({.mode_a = along, .mode_b = along, .fast = 1}) == never);
    CHECK(hopper({.mode_a = mx, .mode_b = mx}) == never);
    CHECK(hopper({.mode_a = 77, .mode_b = 77}) == never);
  }
  {
    Asking older(90, 120800);
    CHECK(older({}) == yes);
    CHECK(older({.mode_a = along, .mode_b = along}) == never);
  }
  {
    Asking blackwell(100);
    CHECK(blackwell({.mode_a = mx, .mode_b = mx}) == yes);
    CHECK(blackwell({.transpose_a = false}) == yes);
    CHECK(blackwell({.mode_a = along, .mode_b = along}) == never);
  }
  {
    Asking ampere(80);
    CHECK(ampere({}) == never);
    CHECK(ampere({.a = CUDA_R_16BF, .b = CUDA_R_16BF, .scaled = false}) == yes);
  }
}

TEST_CASE("epilogues of f32 and bf16: pointers, leading dimensions, types") {
  Asking ask;
  const auto plain = [](Asked q) {
    q.a = q.b = q.c = CUDA_R_16BF, q.scaled = false;
    return q;
  };
  CHECK(ask(plain({})) == yes);
  CHECK(ask(plain({.m = 7, .n = 5, .k = 3, .alignment = 2})) == yes);
  CHECK(ask(plain({.alignment = 1})) == wrong);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_BIAS})) == yes);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias_type = CUDA_R_32F})) == never);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS})) == yes);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, .before = false})) == wrong);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, .ld_before = 36})) == wrong);
  CHECK(ask(plain({.epilogue = CUBLASLT_EPILOGUE_DGELU, .ld_before = 24})) == wrong);
  CHECK(ask(plain({.epilogue = 3})) == never);
  Asked scaled = plain({});
  scaled.scaled = true;
  CHECK(ask(scaled) == wrong);
  Asked mixed = plain({});
  mixed.b = CUDA_R_32F;
  CHECK(ask(mixed) == never);
}
