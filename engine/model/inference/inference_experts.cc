#include "engine/model/inference/inference_experts.h"

#include "engine/model/experts/router_of.h"
#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

namespace {

// Each tensor of a scratch, with its type and shape.
template <class Take>
void for_each_tensor(ExpertScratch& s, const ModelShape& shape, DType dtype, std::int64_t tokens, const Take& take) {
  const std::int64_t h = shape.hidden_size, e = shape.num_local_experts, f = shape.moe_intermediate_size,
                     slots = tokens * shape.num_experts_per_tok, shared = shape.shared_size();
  if (dtype != DType::f32) take(s.x32, DType::f32, Shape{tokens, h});
  take(s.logits, DType::f32, Shape{tokens * e}), take(s.gates, DType::f32, Shape{slots});
  for (Tensor* numbers : {&s.ids, &s.slot_row, &s.row_slot, &s.row_token}) take(*numbers, DType::i32, Shape{slots});
  take(s.offsets, DType::i64, Shape{e + 1});
  take(s.rows, dtype, Shape{slots, h}), take(s.gate_up, dtype, Shape{slots, 2 * f});
  take(s.activated, dtype, Shape{slots, f});
  if (shared == 0) return;
  take(s.shared, dtype, Shape{tokens, 2 * shared}), take(s.shared_activated, dtype, Shape{tokens, shared});
}

template <class T>
std::span<T> first_of(Tensor& numbers, std::int64_t count) {
  return numbers.span<T>().first(static_cast<std::size_t>(count));
}

DispatchArrays plan_arrays(ExpertScratch& s, const RouterShape& router) {
  DispatchArrays plan;
  plan.tokens = router.tokens, plan.top_k = router.top_k, plan.experts = router.experts;
  plan.rows = dispatch_rows_max(plan.tokens, plan.top_k, plan.experts, nullptr);
  plan.offsets = s.offsets.span<std::int64_t>();
  plan.row_slot = first_of<std::int32_t>(s.row_slot, plan.rows);
  plan.row_token = first_of<std::int32_t>(s.row_token, plan.rows);
  plan.slot_row = first_of<std::int32_t>(s.slot_row, plan.tokens * plan.top_k);
  return plan;
}

}  // namespace

std::int64_t ExpertWeights::bytes() const {
  std::int64_t sum = router.bytes() + bias.bytes() + gate_up.bytes() + down.bytes();
  if (shared_gate_up.out() > 0) sum += shared_gate_up.bytes() + shared_down.bytes();
  return sum;
}

void ExpertScratch::reserve(const ModelShape& shape, DType dtype, std::int64_t tokens, MemoryAccount* memory) {
  if (tokens <= tokens_max) return;
  tokens_max = tokens;
  for_each_tensor(*this, shape, dtype, tokens, [&](Tensor& tensor, DType type, const Shape& of) {
    tensor = Tensor();  // before the larger one is taken
    tensor = Tensor(type, of, memory);
  });
}

std::int64_t ExpertScratch::bytes_for(const ModelShape& shape, DType dtype, std::int64_t tokens) {
  ExpertScratch none;
  std::int64_t bytes = 0;
  for_each_tensor(none, shape, dtype, tokens,
                  [&](Tensor&, DType type, const Shape& of) { bytes += of.size() * dtype_bytes(type); });
  return bytes;
}

void apply_experts(const ComputeContext& context, const ModelShape& shape, const ExpertWeights& weights,
                   ExpertScratch& s, std::int64_t tokens, View x, View y) {
  const std::int64_t h = shape.hidden_size, e = shape.num_local_experts, f = shape.moe_intermediate_size,
                     sf = shape.shared_size();
  const RouterShape router = router_of(shape, tokens);
  const View input = first_rows(x, tokens), wide = x.dtype() == DType::f32 ? input : first_rows(s.x32, tokens);
  if (x.dtype() != DType::f32) cast(context, input, wide);
  const std::span<float> logits = first_of<float>(s.logits, tokens * e);
  const std::span<float> gates = first_of<float>(s.gates, tokens * router.top_k);
  const std::span<std::int32_t> ids = first_of<std::int32_t>(s.ids, tokens * router.top_k);
  linear_forward(context, {tokens, h, e}, wide, weights.router, View(logits));
  moe_select(context, router, logits, weights.bias.span<float>(), ids);
  moe_gate_forward(context, router, logits, ids, gates);

  const DispatchArrays plan = plan_arrays(s, router);
  moe_dispatch_into(context, ids, {}, nullptr, plan);
  const View rows = first_rows(s.rows, plan.rows), both = first_rows(s.gate_up, plan.rows),
             activated = first_rows(s.activated, plan.rows);
  moe_permute(context, plan.view(), h, input, rows);
  grouped_linear_forward(context, {e, h, 2 * f}, plan.offsets, rows, weights.gate_up.dense()->weight, both);
  swiglu_forward(context, both, activated);
  grouped_linear_forward(context, {e, f, h}, plan.offsets, activated, weights.down.dense()->weight, rows);
  if (sf > 0) {
    const View shared = first_rows(s.shared, tokens), inner = first_rows(s.shared_activated, tokens);
    weights.shared_gate_up.apply(context, tokens, input, shared);
    swiglu_forward(context, shared, inner);
    weights.shared_down.apply(context, tokens, inner, y);
  }
  moe_combine(context, plan.view(), h, rows, gates, y, sf > 0);
}

}  // namespace longhaul
