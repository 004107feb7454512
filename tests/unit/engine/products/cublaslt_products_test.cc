// The engine's code for cuBLASLt, over the library that stands in for it: products of every transposition, type and
// odd size against the f64 reference; one question for an algorithm for each case; the same bits twice.
#include <cstring>

#include "engine/ops/gemm.h"
#include "tests/support/stand_in_gpu.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

// Operations on memory of the host, as OpContext has them, with this GPU.
struct StagedGpu {
  testing::StandInGpu gpu;
  testing::StagedOps staged{gpu.device(), gpu.ops()};
  ComputeContext context{gpu.device(), staged};
  explicit StagedGpu(int capability = 90) : gpu(capability) {}
  operator const ComputeContext&() const { return context; }  // NOLINT: implicit on purpose
};

Tensor product_of(const ComputeContext& on, const GemmShape& shape, const Values& a, const Values& b, DType dtype) {
  Tensor c(dtype, {shape.m, shape.n});
  gemm(on, shape, a, b, c);
  return c;
}

}  // namespace

TEST_CASE("an algorithm is asked for once for each case, and again for another one") {
  const StagedGpu gpu;
  const Values a = random_values(DType::bf16, 64 * 64, 1), b = random_values(DType::bf16, 64 * 64, 2);
  const auto asked = [] { return testing::cublaslt_counts().heuristics; };
  GemmShape shape{.m = 24, .n = 40, .k = 33};
  for (int i = 0; i < 3; ++i) (void)product_of(gpu, shape, a, b, DType::bf16);
  CHECK(asked() == 1);
  CHECK(testing::cublaslt_counts().products == 3);
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 2);
  shape.alpha = 2;  // is no part of it
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 2);
  shape.beta = 1;
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 3);
  shape.transpose_b = true;
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 4);
  shape.row_stride_a = 34;
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 5);
  shape.m = 23;
  (void)product_of(gpu, shape, a, b, DType::f32);
  CHECK(asked() == 6);
}

TEST_CASE("memory that begins elsewhere is another case: an algorithm counts on what it was told") {
  testing::StandInGpu gpu;
  DeviceMemory memory(gpu.device(), 1 << 16);
  const auto at = [&](std::int64_t offset) { return View(memory.data() + offset, DType::bf16, Shape{64 * 16}); };
  const auto c = [&](std::int64_t offset) { return View(memory.data() + offset, DType::bf16, Shape{16 * 16}); };
  const GemmShape shape{.m = 16, .n = 16, .k = 16};
  for (const std::int64_t offset : {0, 256, 2, 258, 4, 16, 128}) gpu.ops().gemm(shape, at(offset), at(16384), c(32768));
  CHECK(testing::cublaslt_counts().heuristics == 5);  // 256, 2, 4, 16, 128
  gpu.ops().gemm(shape, at(0), at(16384 + 2), c(32768 + 6));
  CHECK(testing::cublaslt_counts().heuristics == 6);
}

TEST_CASE("a sum of nothing is zero, or leaves what was there") {
  const StagedGpu gpu;
  Values nothing = random_values(DType::f32, 8, 1), c = random_values(DType::f32, 12, 2);
  const Vector before = c.exact;
  gemm(gpu, {.m = 3, .n = 4, .k = 0, .beta = 1}, nothing, nothing, c);
  CHECK(exact_of(c.tensor) == before);
  gemm(gpu, {.m = 3, .n = 4, .k = 0}, nothing, nothing, c);
  CHECK(exact_of(c.tensor) == Vector(12, 0.0));
}

TEST_CASE("nothing that was made stays behind; parts of sums are never added as they come: the same bits twice") {
  const Values a = random_values(DType::f32, 48 * 129, 3), b = random_values(DType::f32, 129 * 40, 4);
  const GemmShape shape{.m = 48, .n = 40, .k = 129};
  {
    const StagedGpu gpu;
    const Tensor one = product_of(gpu, shape, a, b, DType::f32), two = product_of(gpu, shape, a, b, DType::f32);
    CHECK(std::memcmp(one.view().data(), two.view().data(), static_cast<std::size_t>(one.bytes())) == 0);
    CHECK(testing::cublaslt_counts().alive > 0);
  }
  CHECK(testing::cublaslt_counts().alive == 0);
}
