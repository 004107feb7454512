#include "tests/gpu/bench/bench_products.h"

#include <cstdio>

#include "base/text/text.h"
#include "engine/ops/linear/fp8.h"
#include "engine/ops/linear/linear_gelu.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/gelu.h"
#include "tests/gpu/bench/bench_entry.h"

namespace longhaul::gpu_bench {
namespace {

constexpr std::int64_t tokens = 4096;

// Bytes of a matrix of codes beside those of its bf16.
double cast_bytes(const Fp8Matrix& m) {
  return 3.0 * static_cast<double>(m.rows * m.columns) + static_cast<double>(m.scale_bytes());
}

struct Coded {
  Fp8Matrix matrix;
  Tensor codes, scales;
};
Coded coded(const ProductsBench& bench, const Fp8Cast& how) {
  const Fp8Matrix& m = how.to;
  Coded out{m, bench.empty(DType::u8, m.rows * m.columns), bench.empty(DType::u8, m.scale_bytes())};
  const Tensor x = bench.filled(DType::bf16, m.rows * m.columns);
  if (m.scales == Fp8Scales::tensor) {
    const Tensor amax = bench.filled(DType::f32, 1);
    fp8_tensor_scale(bench.context, m.format, 0, amax, View(out.scales.view().data(), DType::f32, Shape{1}));
  }
  const std::string name = format("cast to fp8, {}{}, {} x {}", to_string(m.scales),
                                  how.transposed ? ", transposed" : "", m.rows, m.columns);
  bench.measure(name, cast_bytes(m), 0, [&] { fp8_cast(bench.context, how, x, out.codes, out.scales); });
  return out;
}

// Llama-2 7B's widest matrix: forward, and the weights' gradient into f32.
void fp8_products(const ProductsBench& bench, Fp8Scales rows, Fp8Scales weights) {
  constexpr std::int64_t in = 4096, out = 2 * 11008;
  const NumberFormat e4m3 = NumberFormat::e4m3;
  const double flops = gemm_flops(tokens, out, in);
  Tensor y = bench.empty(DType::bf16, tokens * out), dw = bench.empty(DType::f32, in * out);
  const Coded x = coded(bench, {{tokens, in, e4m3, rows}}), w = coded(bench, {{out, in, e4m3, weights}});
  Fp8Product forward{tokens, out, in, e4m3, e4m3, rows, weights};
  for (const bool fast : {false, true}) {
    if (fast && rows != Fp8Scales::tensor) continue;
    forward.fast = fast;
    bench.measure(format("up forward, fp8, {}{}", to_string(rows), fast ? ", fast sums" : ""), 0, flops,
                  [&] { fp8_product(bench.context, forward, {x.codes, x.scales, w.codes, w.scales}, y); });
  }
  const NumberFormat of_gradients = rows == Fp8Scales::tensor ? NumberFormat::e5m2 : e4m3;
  const Coded dy = coded(bench, {{out, tokens, of_gradients, rows}, true}),
              xt = coded(bench, {{in, tokens, e4m3, rows}, true});
  const Fp8Product gradient{out, in, tokens, of_gradients, e4m3, rows, rows, 1.0F};
  bench.measure(format("up weight gradient, fp8, {}, f32 sums", to_string(rows)), 0, flops,
                [&] { fp8_product(bench.context, gradient, {dy.codes, dy.scales, xt.codes, xt.scales}, dw); });
}

// GPT-2 1.5B's first matrix of the feed-forward.
void fused(const ProductsBench& bench) {
  constexpr std::int64_t in = 1600, out = 6400;
  const ComputeContext& c = bench.context;
  const double flops = gemm_flops(tokens, out, in);
  const LinearShape shape{tokens, in, out}, back{tokens, out, in};
  Tensor x = bench.filled(DType::bf16, tokens * in), w = bench.filled(DType::bf16, in * out);
  Tensor bias = bench.filled(DType::bf16, out), before = bench.filled(DType::bf16, tokens * out);
  Tensor y = bench.empty(DType::bf16, tokens * out);
  bench.measure("linear with bias, in one", 0, flops, [&] { linear_forward(c, shape, x, w, y, bias); });
  bench.measure("linear with bias, in two", 0, flops, [&] {
    linear_forward(c, shape, x, w, y);
    add_to_rows(c, bias, tokens, y);
  });
  bench.measure("linear and GELU, in one", 0, flops, [&] { linear_gelu_forward(c, shape, x, w, bias, before, y); });
  bench.measure("linear and GELU, in two", 0, flops, [&] {
    linear_forward(c, shape, x, w, before, bias);
    gelu_forward(c, before, y);
  });
  bench.measure("linear and GELU backward, in one", 0, flops, [&] { linear_gelu_backward(c, back, x, w, before, y); });
  bench.measure("linear and GELU backward, in two", 0, flops, [&] {
    linear_backward_input(c, back, x, w, y);
    gelu_backward(c, y, before, y);
  });
}

}  // namespace

void bench_products(const ProductsBench& bench) {
  const Fp8Support support = fp8_support(bench.context);
  if (support.tensor) fp8_products(bench, Fp8Scales::tensor, Fp8Scales::tensor);
  if (support.blocks) fp8_products(bench, Fp8Scales::rows, Fp8Scales::squares);
  if (support.mx) fp8_products(bench, Fp8Scales::mx, Fp8Scales::mx);
  if (!support.tensor || !support.blocks || !support.mx) std::printf("left out: %s\n", support.why_not.c_str());
  fused(bench);
}

}  // namespace longhaul::gpu_bench
