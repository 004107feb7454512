#include "contracts/memory_plan.h"

#include "contracts/parameter_list.h"

namespace longhaul {

MemoryPlan plan_training_memory(const TrainingMemoryInput& in) {
  const ModelShape& s = in.shape;
  const RankCoordinates first{};
  std::int64_t parameters = 0;
  for (const ParameterSpec& p : parameter_list(s)) parameters += shard_of(p, s, in.dims, first).elements();

  const std::int64_t width = in.bf16 ? 2 : 4;
  MemoryPlan plan;
  plan.weights = in.bf16 ? parameters * 2 : 0;  // in f32 the master is the compute copy
  plan.master = parameters * 4;
  plan.gradients = parameters * 4;
  plan.optimizer = parameters * 8 / (in.dims.zero >= 1 ? in.dims.dp_shard : 1);

  // Kept per token and layer for backward: the block's input, both normalised inputs, q, k, v, the attention output,
  // the residual between the halves, gate, up and their product (GELU: one and its result); plus f32 log-sum-exp per
  // head and two inverse norms (LayerNorm: and means).
  const std::int64_t tokens = in.micro_batch_size * in.sequence_length / in.dims.cp;
  const std::int64_t per_token_layer =
      width * (4 * s.hidden_size + 2 * s.q_size() / in.dims.tp + 2 * s.kv_size() / in.dims.tp +
               (s.mlp_width() + s.intermediate_size) / in.dims.tp) +
      4 * (s.num_attention_heads / in.dims.tp + 2 * s.norm_statistics());
  const LayerRange layers = layers_of_stage(static_cast<int>(s.num_hidden_layers), in.dims.pp * in.dims.vp, 0);
  plan.activations = in.slots * tokens * per_token_layer * (layers.last - layers.first);
  plan.logits = tokens * s.vocab_size / in.dims.tp * width;
  return plan;
}

}  // namespace longhaul
