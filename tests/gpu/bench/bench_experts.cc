#include "tests/gpu/bench/bench_experts.h"

#include <vector>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/experts/moe_balance.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/pointwise/elementwise.h"
#include "tests/gpu/bench/bench_entry.h"

namespace longhaul::gpu_bench {
namespace {

struct Mixture {
  const char* name;
  std::int64_t tokens, hidden, ffn, experts, top_k;
  std::int64_t rows() const { return tokens * top_k; }
};

// Tensors and the plan of one mixture on the device. Each token's experts are drawn, so that they have about as much to
// do as each other.
class Layer {
 public:
  Layer(const ComputeContext& context, const Mixture& m)
      : context_(context), m_(m), account_{.device = context.device()} {
    std::vector<float> logits(static_cast<std::size_t>(m.tokens * m.experts));
    const Philox random{7, 1};
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(random.normal(i));
    logits_ = tensor(DType::f32, m.tokens * m.experts);
    copy_in(context, ConstView(logits), logits_);
    ids_ = tensor(DType::i32, m.rows()), weights_ = tensor(DType::f32, m.rows());
    ints_ = tensor(DType::i32, 3 * m.rows()), offsets_ = tensor(DType::i64, m.experts + 1);
    plan_.tokens = m.tokens, plan_.top_k = m.top_k, plan_.experts = m.experts, plan_.rows = m.rows();
    const auto rows = static_cast<std::size_t>(m.rows());
    plan_.offsets = offsets_.span<std::int64_t>(), plan_.row_slot = ints_.span<std::int32_t>().first(rows);
    plan_.row_token = ints_.span<std::int32_t>().subspan(rows, rows);
    plan_.slot_row = ints_.span<std::int32_t>().subspan(2 * rows);
    route();
  }

  // The router behind its product: choice, weights, statistics, and where rows go.
  void route() {
    const RouterShape shape{.tokens = m_.tokens, .experts = m_.experts, .top_k = m_.top_k};
    moe_select(context_, shape, logits(), {}, ids_.span<std::int32_t>());
    moe_gate_forward(context_, shape, logits(), ids(), weights_.span<float>());
    moe_router_statistics(context_, shape, logits(), ids(), statistics_.span<float>());
    moe_dispatch_into(context_, ids(), {}, nullptr, plan_);
  }
  void measure_rows(const Measure& measure) {
    const double row = 2.0 * static_cast<double>(m_.hidden), all = static_cast<double>(m_.rows()) * row,
                 few = static_cast<double>(m_.tokens) * row;
    Tensor x = filled(DType::bf16, m_.tokens * m_.hidden), rows = filled(DType::bf16, m_.rows() * m_.hidden);
    Tensor dweights = tensor(DType::f32, m_.rows());
    const DispatchView plan = plan_.view();
    const std::span<const float> w = weights_.span<float>();
    measure(format("{}, router and plan", m_.name), 4.0 * static_cast<double>(logits().size()), 0, 0,
            [this] { route(); });
    measure(format("{}, permute", m_.name), few + all, 0, 0, [&] { moe_permute(context_, plan, m_.hidden, x, rows); });
    measure(format("{}, combine", m_.name), all + few, 0, 0,
            [&] { moe_combine(context_, plan, m_.hidden, rows, w, x); });
    measure(format("{}, combine backward", m_.name), few + 2 * all, 0, 0,
            [&] { moe_combine_backward(context_, plan, m_.hidden, x, rows, w, rows, dweights.span<float>()); });
    measure(format("{}, permute backward", m_.name), all + few, 0, 0,
            [&] { moe_permute_backward(context_, plan, m_.hidden, rows, x); });
  }
  void measure_products(const Measure& measure) {
    const GroupedLinearShape shape{m_.experts, m_.hidden, 2 * m_.ffn};
    const std::int64_t matrix = shape.in * shape.out;
    const double flops =
        gemm_flops(static_cast<double>(m_.rows()), static_cast<double>(shape.out), static_cast<double>(shape.in));
    Tensor x = filled(DType::bf16, m_.rows() * shape.in), y = filled(DType::bf16, m_.rows() * shape.out);
    Tensor w = filled(DType::bf16, m_.experts * matrix), dw = tensor(DType::f32, m_.experts * matrix);
    const std::span<const std::int64_t> offsets = offsets_.span<std::int64_t>();
    measure(format("{}, up forward", m_.name), 0, flops, 0,
            [&] { grouped_linear_forward(context_, shape, offsets, x, w, y); });
    measure(format("{}, up input gradient", m_.name), 0, flops, 0,
            [&] { grouped_linear_backward_input(context_, shape, offsets, y, w, x); });
    measure(format("{}, up weight gradient, f32 sums", m_.name), 0, flops, 0,
            [&] { grouped_linear_backward_weight(context_, shape, offsets, y, x, dw); });
  }

 private:
  Tensor tensor(DType dtype, std::int64_t size) { return Tensor(dtype, Shape{size}, &account_); }
  Tensor filled(DType dtype, std::int64_t size) {
    Tensor made = tensor(dtype, size);
    fill(context_, made.view(), 0.015625F);
    return made;
  }
  std::span<const float> logits() { return logits_.span<float>(); }
  std::span<const std::int32_t> ids() { return ids_.span<std::int32_t>(); }

  const ComputeContext& context_;
  Mixture m_;
  MemoryAccount account_;
  Tensor logits_, ids_, weights_, ints_, offsets_, statistics_ = tensor(DType::f32, 2 * m_.experts + 2);
  DispatchArrays plan_;
};

}  // namespace

void bench_experts(const ComputeContext& context, const Measure& measure) {
  // Mixtral 8x7B's layer, and one of many small experts (DeepSeekMoE 16B's), a sequence of 4096 tokens each.
  for (const Mixture& m :
       {Mixture{"8 experts, 2 each", 4096, 4096, 14336, 8, 2}, {"64 experts, 6 each", 4096, 2048, 1408, 64, 6}}) {
    Layer layer(context, m);
    layer.measure_rows(measure);
    layer.measure_products(measure);
  }
}

}  // namespace longhaul::gpu_bench
