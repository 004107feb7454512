// Auxiliary losses of a router. Statistics first, the loss from them afterwards: statistics are sums over tokens, so
// they can be added up over ranks (tp, cp), layers or micro-batches before the loss, which is not linear in them, is
// taken.
//   counts[e]: number of (token, slot) pairs that go to e;  P[e]: sum over tokens of p_e;  z: sum over tokens of lse^2
//   p: softmax(logits), or for sigmoid scores s_e / (sum of all s + 1e-20);  lse: logsumexp(logits)
// Losses, with T tokens and E experts, times a coefficient:
//   megatron      E sum_e (counts[e] / (T top_k)) (P[e] / T)   Switch Transformer (arXiv 2101.03961, eqs. 4-6);
//                                                              sigmoid: DeepSeek-V3 (arXiv 2412.19437, eqs. 17-20)
//   hugging_face  E sum_e (counts[e] / T) (P[e] / T)           Mixtral's load_balancing_loss_func: top_k times the
//                                                              other; takes the sum of all layers' statistics
//   z             z / T                                        ST-MoE (arXiv 2202.08906, eq. 5)
// Gradients go through P and z; counts are constants. A loss per sequence takes statistics per sequence.
#pragma once

#include <span>
#include <vector>

#include "engine/ops/experts/moe_router.h"

namespace longhaul {

// Kept as one array, [counts E, P E, z, tokens], so that one all-reduce adds them up. f32: counts are exact to 2^24.
struct RouterStatistics {
  RouterStatistics() = default;
  explicit RouterStatistics(std::int64_t experts) : values(static_cast<std::size_t>(2 * experts + 2), 0.0F) {}
  std::int64_t experts() const { return (static_cast<std::int64_t>(values.size()) - 2) / 2; }
  std::span<const float> counts() const { return std::span(values).first((values.size() - 2) / 2); }
  std::span<const float> probability_sums() const {
    return std::span(values).subspan((values.size() - 2) / 2, (values.size() - 2) / 2);
  }
  float lse_squares() const { return values[values.size() - 2]; }
  float tokens() const { return values[values.size() - 1]; }
  void add(const RouterStatistics& other);  // of as many experts

  std::vector<float> values;
};

// Sums in f64, over fixed chunks of tokens in order. ids [tokens, top_k]: the experts that the tokens go to (before any
// are dropped). Empty ids: counts of the plain top_k of the scores, without bias and groups, which is what DeepSeek-V3
// (eq. 18) and Megatron count where the selection has a bias. mask [tokens]: 0 leaves a token out (padding), here and
// in the backward pass; empty: all count.
RouterStatistics moe_router_statistics(const ComputeContext& context, const RouterShape& shape,
                                       std::span<const float> logits, std::span<const std::int32_t> ids,
                                       std::span<const std::uint8_t> mask = {});

// The same, written as RouterStatistics keeps them: statistics [2 experts + 2].
void moe_router_statistics(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                           std::span<const std::int32_t> ids, std::span<float> statistics,
                           std::span<const std::uint8_t> mask = {});

enum class BalanceLoss { megatron, hugging_face };

// A loss with its derivatives by the statistics: what moe_statistics_backward needs.
struct RouterLoss {
  double loss = 0.0;
  std::vector<float> dprobability_sums;  // [experts], or empty: none
  float dlse_squares = 0.0F;
};
// No tokens: loss 0, gradient 0.
RouterLoss moe_balance_loss(const RouterStatistics& statistics, std::int64_t top_k, double coefficient,
                            BalanceLoss definition);
RouterLoss moe_z_loss(const RouterStatistics& statistics, double coefficient);
// Both at once.
RouterLoss operator+(RouterLoss a, const RouterLoss& b);

// Both losses and their derivatives where the statistics lie, which a device's host need not know.
//   slopes [experts + 3]: dprobability_sums, dlse_squares, the balance loss, the z-loss
// balance, z: statistics [2 experts + 2] of the tokens that each loss is a mean over.
struct RouterLossTerms {
  std::int64_t experts = 0, top_k = 1;
  double balance_coefficient = 0;  // 0: no such loss
  BalanceLoss definition = BalanceLoss::megatron;
  double z_coefficient = 0;
};
void moe_router_losses(const ComputeContext& context, const RouterLossTerms& terms, std::span<const float> balance,
                       std::span<const float> z, std::span<float> slopes);

// dlogits[tokens, experts] += scale times the gradient of `loss` by these tokens' logits. `scale` carries what the loss
// is multiplied with outside (loss scale, number of tokens).
void moe_statistics_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                             const RouterLoss& loss, float scale, std::span<float> dlogits,
                             std::span<const std::uint8_t> mask = {});
// The same from `slopes` as moe_router_losses writes them.
void moe_statistics_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                             std::span<const float> slopes, float scale, std::span<float> dlogits,
                             std::span<const std::uint8_t> mask = {});

}  // namespace longhaul
