// The router of a mixture of experts: which experts a token goes to, and with which weights.
//
// select: the top_k experts by a selection value, which is the logit (softmax_selected), softmax(logits) (softmax_all)
// or sigmoid(logit), plus bias[e] if given (Wang et al. 2024, arXiv 2408.15664, eq. 3). Not differentiated.
//
// gate: their weights, from the logits alone; S are the selected experts, c is `scaling`.
//   softmax_selected  w_i = c exp(z_i) / sum over S of exp(z)     Mixtral (arXiv 2401.04088, section 2.1); the same as
//                                                                 softmax over all, divided by its sum over S
//   softmax_all       w_i = c exp(z_i) / sum over all of exp(z)   Switch Transformer (arXiv 2101.03961, eq. 1)
//   sigmoid           w_i = c s_i / (sum over S of s + 1e-20)     DeepSeek-V3 (arXiv 2412.19437, eqs. 13-16);
//                                                                 top_k = 1: w = c s
// With softmax_selected and top_k = 1 the weight is always c: the loss teaches such a router nothing.
//
// Layouts: select and gate look at one token at a time, so tokens may lie on any rank. Sinkhorn looks at all tokens of
// a micro-batch: gather its logits first. A NaN counts as the largest value in moe_select, so it reaches the weights.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"

namespace longhaul {

enum class RouterScore { softmax_selected, softmax_all, sigmoid };

struct RouterShape {
  std::int64_t tokens = 0, experts = 0, top_k = 1;
  RouterScore score = RouterScore::softmax_selected;
  float scaling = 1.0F;
  // Group-limited selection (DeepSeek-V3, section 2.1.2): the experts lie in `groups` groups of neighbours; a token may
  // only go to the `groups_kept` of them with the largest sum of their `group_best` best selection values (Megatron
  // takes top_k / groups_kept of them, which is 2 there too). groups = 1: no limit.
  std::int64_t groups = 1, groups_kept = 1, group_best = 2;
};

// ids [tokens, top_k], best first; of equal values (of experts or groups) the lower index is taken.
// logits [tokens, experts]; bias [experts] or empty.
void moe_select(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                std::span<const float> bias, std::span<std::int32_t> ids);

// Selection by optimal transport (S-BASE of Clark et al. 2022, arXiv 2202.01169): rows and columns of K = exp(logits)
// are scaled by turns until rows sum to 1 / tokens and columns to 1 / experts; each token takes its top_k largest of
// the result. Starting with d1 = 1:
//   d0 = 1 / (tokens (K d1 + eps)),  d1 = 1 / (experts (K^T d0 + eps)),  until mean |change of d1| <= tolerance
// The logits of a token are taken relative to their largest, which changes the result only through eps. A token whose
// logits are all -infinity is padding: it takes no share, `tokens` above are the others, and its ids are 0 to top_k
// - 1. For training; generation uses moe_select. Groups are not looked at. Megatron gates the result with sigmoid for
// top_k = 1 and with softmax_all above.
struct SinkhornOptions {
  double tolerance = 1e-4, eps = 1e-8;
  int iterations_max = 1000;
};
struct SinkhornReport {
  int iterations = 0;
  double change = 0.0;  // of the last iteration; above the tolerance: iterations_max was reached
};
// report: null: nobody asks, and a device is not waited for.
void moe_select_sinkhorn(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                         const SinkhornOptions& options, std::span<std::int32_t> ids, SinkhornReport* report = nullptr);

// counts[experts] = how many of the ids are that expert.
void moe_count(const ComputeContext& context, std::span<const std::int32_t> ids, std::span<float> counts);

// weights[tokens, top_k] of the selected experts, whoever selected them (ids in [0, experts), checked on processors).
void moe_gate_forward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                      std::span<const std::int32_t> ids, std::span<float> weights);

// dlogits[tokens, experts] = gradient, or += with accumulate; dweights [tokens, top_k]. Dropped tokens have dweights 0.
void moe_gate_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                       std::span<const std::int32_t> ids, std::span<const float> dweights, std::span<float> dlogits,
                       bool accumulate = false);

// Balance without an auxiliary loss (arXiv 2408.15664, algorithm 1), once per step with the counts of the global batch:
// bias[e] += rate sign(mean(counts) - counts[e]).
void moe_bias_update(float rate, std::span<const float> counts, std::span<float> bias);

}  // namespace longhaul
