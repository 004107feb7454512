#include "engine/model/inference/inference_experts.h"

#include "engine/model/experts/router_of.h"
#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

std::int64_t ExpertWeights::bytes() const {
  std::int64_t sum = router.bytes() + gate_up.bytes() + down.bytes();
  if (shared_gate_up.out() > 0) sum += shared_gate_up.bytes() + shared_down.bytes();
  return sum + static_cast<std::int64_t>(bias.size() * sizeof(float));
}

void apply_experts(const ComputeContext& context, const ModelShape& shape, const ExpertWeights& weights,
                   std::int64_t tokens, View x, View y) {
  const std::int64_t h = shape.hidden_size, e = shape.num_local_experts, k = shape.num_experts_per_tok,
                     f = shape.moe_intermediate_size, sf = shape.shared_size();
  const DType dtype = x.dtype();
  const RouterShape router = router_of(shape, tokens);
  Tensor wide(DType::f32, {tokens, h});
  cast(context, first_rows(x, tokens), wide);
  std::vector<float> logits(static_cast<std::size_t>(tokens * e)), gates(static_cast<std::size_t>(tokens * k));
  std::vector<std::int32_t> ids(gates.size());
  linear_forward(context, {tokens, h, e}, wide, weights.router, View(logits));
  moe_select(context, router, logits, weights.bias, ids);
  moe_gate_forward(context, router, logits, ids, gates);

  const DispatchPlan plan = moe_dispatch(tokens, k, e, ids);
  const std::int64_t n = plan.rows();
  Tensor rows(dtype, {n, h}), both(dtype, {n, 2 * f}), activated(dtype, {n, f});
  moe_permute(context, plan, h, x, rows);
  grouped_linear_forward(context, {e, h, 2 * f}, plan.offsets, rows, weights.gate_up.dense()->weight, both);
  swiglu_forward(context, both, activated);
  grouped_linear_forward(context, {e, f, h}, plan.offsets, activated, weights.down.dense()->weight, rows);
  if (sf > 0) {
    Tensor shared(dtype, {tokens, 2 * sf}), inner(dtype, {tokens, sf});
    weights.shared_gate_up.apply(context, tokens, x, shared);
    swiglu_forward(context, shared, inner);
    weights.shared_down.apply(context, tokens, inner, y);
  }
  moe_combine(context, plan, h, rows, gates, y, sf > 0);
}

}  // namespace longhaul
