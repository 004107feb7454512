#include "contracts/memory_plan.h"

#include "contracts/parameter_list.h"

namespace longhaul {

namespace {

// Kept per token and layer where tokens are spread evenly over the experts and none is dropped: of each of its rows
// what its expert received, gate, up and their product (on all ranks that hold a part of it), and the answer; of shared
// experts the same three; of the router f32 logits, weights and ids.
std::int64_t expert_bytes_per_token(const ModelShape& s, const ParallelDims& dims, std::int64_t width) {
  const std::int64_t row = dims.etp * s.hidden_size + 3 * s.moe_intermediate_size + s.hidden_size;
  return (width * (s.num_experts_per_tok * row + 3 * s.shared_size()) +
          4 * (s.num_local_experts + 2 * s.num_experts_per_tok)) /
         dims.tp;
}

}  // namespace

MemoryPlan plan_training_memory(const TrainingMemoryInput& in) {
  const ModelShape& s = in.shape;
  const RankCoordinates first{};
  std::int64_t dense = 0, of_experts = 0;
  for (const ParameterSpec& p : parameter_list(s))
    (p.expert < 0 ? dense : of_experts) += shard_of(p, s, in.dims, first).elements();
  const std::int64_t parameters = dense + of_experts;

  const std::int64_t width = in.bf16 ? 2 : 4;
  MemoryPlan plan;
  plan.weights = in.bf16 ? parameters * 2 : 0;  // in f32 the master is the compute copy
  plan.master = parameters * 4;
  plan.gradients = parameters * 4;
  plan.optimizer = in.moment_staging_bytes + dense * in.moment_bytes / (in.dims.zero >= 1 ? in.dims.dp_shard : 1);
  if (const auto experts = expert_dims_of(in.dims); s.is_moe() && experts.ok()) {
    // Micro-batches that meet in an expert have gradients of their own.
    if (in.dims.zero <= 1) plan.gradients += of_experts * 4 * (experts->batches - 1);
    plan.optimizer += of_experts * in.moment_bytes / (in.dims.zero >= 1 ? experts->dp_shard : 1);
  }

  // Kept per token and layer for backward: the block's input, both normalised inputs, q, k, v, the attention output,
  // the residual between the halves, gate, up and their product (GELU: one and its result); plus f32 log-sum-exp per
  // head and two inverse norms (LayerNorm: and means).
  const std::int64_t tokens = in.micro_batch_size * in.sequence_length / in.dims.cp;
  std::int64_t per_token_layer =
      width * (4 * s.hidden_size + 2 * s.q_size() / in.dims.tp + 2 * s.kv_size() / in.dims.tp) +
      4 * (s.num_attention_heads / in.dims.tp + 2 * s.norm_statistics());
  per_token_layer += s.is_moe() ? expert_bytes_per_token(s, in.dims, width)
                                : width * (s.mlp_width() + s.intermediate_size) / in.dims.tp;
  const LayerRange layers = layers_of_stage(static_cast<int>(s.num_hidden_layers), in.dims.pp * in.dims.vp, 0);
  plan.activations = in.slots * tokens * per_token_layer * (layers.last - layers.first);
  plan.logits = tokens * s.vocab_size / in.dims.tp * width;
  return plan;
}

}  // namespace longhaul
