// The engine's code for cuBLASLt, over the library that stands in for it: products of every transposition, type and
// odd size against the f64 reference; one question for an algorithm for each case; the same bits twice.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <cstring>

#include "engine/ops/linear/fp8.h"
#include "engine/ops/linear/linear_gelu.h"
#include "tests/support/emulated_gpu/stand_in_gpu.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

// Operations on memory of the host, as OpContext has them, with this GPU.
struct StagedGpu {
  testing::StandInGpu gpu;
  testing::StagedOps staged{gpu.device(), gpu.ops()};
  ComputeContext context{gpu.device(), staged};
  explicit StagedGpu(int capability = 90, std::size_t version = testing::cuda_13_cublas) : gpu(capability, version) {}
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

TEST_CASE("memory that begins elsewhere is another case: an algorithm counts on what it was promised") {
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

TEST_CASE(
    "bias and GELU are the product's own where widths and addresses allow it, and kernels of their own elsewhere") {
  const StagedGpu gpu;
  const Index tokens = 11, in = 24;  // more rows than go to kernels that read weights once
  using Names = std::vector<std::string>;
  for (const Index out : {40, 37}) {
    const bool fused = out == 40;
    CAPTURE(out);
    const Values x = random_values(DType::bf16, tokens * in, 1), w = random_values(DType::bf16, out * in, 2);
    const Values bias = random_values(DType::bf16, out, 3), dy = random_values(DType::bf16, tokens * in, 4);
    Tensor y(DType::bf16, {tokens, out}), before(DType::bf16, {tokens, out});
    const testing::StartedKernels kernels;
    const auto products = testing::cublaslt_counts().products;
    linear_forward(gpu, {tokens, in, out}, x, w, y, bias);
    CHECK(kernels.names == (fused ? Names{} : Names{"add_to_rows"}));
    linear_gelu_forward(gpu, {tokens, in, out}, x, w, bias, before, y);
    CHECK(kernels.names == (fused ? Names{} : Names{"add_to_rows", "add_to_rows", "gelu_forward"}));
    linear_gelu_backward(gpu, {tokens, out, in}, dy, w, before, y);
    CHECK(kernels.names == (fused ? Names{} : Names{"add_to_rows", "add_to_rows", "gelu_forward", "gelu_backward"}));
    CHECK(testing::cublaslt_counts().products == products + 3);
  }
}

TEST_CASE("which numbers of eight bits a GPU multiplies, by its kind and by the release; each says what it lacks") {
  const auto of = [](int capability, std::size_t version) {
    return testing::StandInGpu(capability, version).ops().fp8_support();
  };
  const Fp8Support hopper = of(90, 130100), older = of(90, 120800), ampere = of(80, 130100),
                   blackwell = of(100, 130100);
  CHECK((hopper.tensor && hopper.blocks && !hopper.mx));
  CHECK((older.tensor && !older.blocks && !older.mx));
  CHECK((!ampere.tensor && !ampere.blocks && !ampere.mx));
  CHECK((blackwell.tensor && !blackwell.blocks && blackwell.mx));
  CHECK(of(89, 130100).tensor);
  CHECK(ampere.why_not ==
        "products of eight bits begin with compute capability 8.9; this is compute capability 8.0, cuBLAS 13.1");
  CHECK(older.why_not.find("CUDA 12.9") != std::string::npos);
}

TEST_CASE("MXFP8 on Blackwell: scales of 32 in their tiles; a bias is added behind it") {
  const StagedGpu gpu(100);
  const Index m = 144, n = 48, k = 416;
  const Values x = random_values(DType::bf16, m * k, 1), w = random_values(DType::bf16, n * k, 2, 0.01);
  const Fp8Matrix as_a{m, k, NumberFormat::e4m3, Fp8Scales::mx}, as_b{n, k, NumberFormat::e4m3, Fp8Scales::mx};
  Tensor a(DType::u8, {m * k}), b(DType::u8, {n * k}), a_scales(DType::u8, {as_a.scale_bytes()}),
      b_scales(DType::u8, {as_b.scale_bytes()}), want(DType::f32, {m, n}), got(DType::f32, {m, n});
  const ComputeContext cpu(1);
  fp8_cast(gpu, {as_a}, x, a, a_scales), fp8_cast(gpu, {as_b}, w, b, b_scales);
  const Values bias = random_values(DType::f32, n, 5);
  const Fp8Product shape{m, n, k, as_a.format, as_b.format, as_a.scales, as_b.scales};
  const Fp8Operands operands{a, a_scales, b, b_scales};
  CHECK(fp8_refusal(gpu, shape, operands, got).empty());
  fp8_product(gpu, shape, operands, got, bias), fp8_product(cpu, shape, operands, want, bias);
  check_close("mxfp8", got, exact_of(want), tolerance(DType::f32));
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
#endif
