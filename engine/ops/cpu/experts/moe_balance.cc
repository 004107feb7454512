#include "engine/ops/experts/moe_balance.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/experts/moe_rows.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;

// p of one token (see the header) and its logsumexp. For sigmoid scores `scores` [experts] gets the scores and `sum`
// their sum + eps; otherwise they are left alone.
double probability_row(const cpu::Kernels& kernels, const RouterShape& s, const float* z, float* p, float* scores,
                       float* sum) {
  const double lse = cpu::softmax_row(kernels, z, s.experts, p);
  if (s.score != RouterScore::sigmoid) return lse;
  cpu::sigmoid_row(kernels, z, s.experts, scores);
  *sum = cpu::kSigmoidSumEps;
  for (Index e = 0; e < s.experts; ++e) *sum += scores[e];
  for (Index e = 0; e < s.experts; ++e) p[e] = scores[e] / *sum;
  return lse;
}

bool is_left_out(std::span<const std::uint8_t> mask, Index token) {
  return !mask.empty() && mask[static_cast<std::size_t>(token)] == 0;
}

}  // namespace

void RouterStatistics::add(const RouterStatistics& other) {
  LH_ASSERT(values.size() == other.values.size(), format("{} and {} experts", experts(), other.experts()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
}

RouterStatistics moe_router_statistics(const ComputeContext& context, const RouterShape& shape,
                                       std::span<const float> logits, std::span<const std::int32_t> ids,
                                       std::span<const std::uint8_t> mask) {
  constexpr Index chunk = 128;  // tokens
  cpu::check_size(logits.size(), shape.tokens * shape.experts, "logits");
  if (!ids.empty()) cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
  if (!mask.empty()) cpu::check_size(mask.size(), shape.tokens, "mask");
  LH_ASSERT(context.device_ops() == nullptr, "statistics of a device are written where they lie");
  const Index experts = shape.experts, width = 2 * experts + 2, chunks = (shape.tokens + chunk - 1) / chunk;
  std::vector<double> parts(static_cast<std::size_t>(chunks * width), 0.0);
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_chunks(context, shape.tokens, chunk, [&](Index begin, Index end) {
    double* part = parts.data() + begin / chunk * width;
    std::vector<float> p(static_cast<std::size_t>(experts)), scores(p.size());
    std::vector<std::int32_t> best(static_cast<std::size_t>(shape.top_k));
    for (Index t = begin; t < end; ++t) {
      if (is_left_out(mask, t)) continue;
      float sum = 0.0F;
      const float* z = logits.data() + t * experts;
      const double lse = probability_row(kernels, shape, z, p.data(), scores.data(), &sum);
      const std::int32_t* chosen = best.data();
      if (ids.empty()) {
        cpu::top_k_indices(z, experts, shape.top_k, best.data());  // scores grow with the logits
      } else {
        chosen = ids.data() + t * shape.top_k;
      }
      for (Index j = 0; j < shape.top_k; ++j) {
        LH_ASSERT(chosen[j] >= 0 && chosen[j] < experts, format("token {} has expert {} of {}", t, chosen[j], experts));
        part[chosen[j]] += 1.0;
      }
      for (Index e = 0; e < experts; ++e) part[experts + e] += static_cast<double>(p[static_cast<std::size_t>(e)]);
      part[2 * experts] += lse * lse;
      part[2 * experts + 1] += 1.0;
    }
  });
  RouterStatistics statistics(experts);
  for (Index i = 0; i < width; ++i) {
    double sum = 0.0;
    for (Index c = 0; c < chunks; ++c) sum += parts[static_cast<std::size_t>(c * width + i)];
    statistics.values[static_cast<std::size_t>(i)] = static_cast<float>(sum);
  }
  return statistics;
}

void moe_router_statistics(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                           std::span<const std::int32_t> ids, std::span<float> statistics,
                           std::span<const std::uint8_t> mask) {
  cpu::check_size(statistics.size(), 2 * shape.experts + 2, "statistics");
  if (const DeviceOps* device = context.device_ops()) {
    cpu::check_size(logits.size(), shape.tokens * shape.experts, "logits");
    if (!ids.empty()) cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
    if (!mask.empty()) cpu::check_size(mask.size(), shape.tokens, "mask");
    return device->moe_router_statistics(shape, logits, ids, statistics, mask);
  }
  const RouterStatistics found = moe_router_statistics(context, shape, logits, ids, mask);
  std::copy(found.values.begin(), found.values.end(), statistics.begin());
}

RouterLoss moe_balance_loss(const RouterStatistics& statistics, std::int64_t top_k, double coefficient,
                            BalanceLoss definition) {
  const std::span<const float> counts = statistics.counts(), sums = statistics.probability_sums();
  RouterLoss result{0.0, std::vector<float>(counts.size(), 0.0F), 0.0F};
  const auto tokens = static_cast<double>(statistics.tokens());
  if (tokens == 0.0) return result;
  LH_ASSERT(top_k > 0, std::to_string(top_k));
  double factor = coefficient * static_cast<double>(counts.size()) / (tokens * tokens);
  if (definition == BalanceLoss::megatron) factor /= static_cast<double>(top_k);
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const double share = factor * static_cast<double>(counts[e]);
    result.loss += share * static_cast<double>(sums[e]);
    result.dprobability_sums[e] = static_cast<float>(share);
  }
  return result;
}

RouterLoss moe_z_loss(const RouterStatistics& statistics, double coefficient) {
  if (statistics.tokens() == 0.0F) return {};
  const double share = coefficient / static_cast<double>(statistics.tokens());
  return {share * static_cast<double>(statistics.lse_squares()), {}, static_cast<float>(share)};
}

RouterLoss operator+(RouterLoss a, const RouterLoss& b) {
  a.loss += b.loss;
  a.dlse_squares += b.dlse_squares;
  if (a.dprobability_sums.empty()) {
    a.dprobability_sums = b.dprobability_sums;
  } else if (!b.dprobability_sums.empty()) {
    LH_ASSERT(a.dprobability_sums.size() == b.dprobability_sums.size(), "losses of unlike numbers of experts");
    for (std::size_t e = 0; e < a.dprobability_sums.size(); ++e) a.dprobability_sums[e] += b.dprobability_sums[e];
  }
  return a;
}

void moe_router_losses(const ComputeContext& context, const RouterLossTerms& terms, std::span<const float> balance,
                       std::span<const float> z, std::span<float> slopes) {
  const Index experts = terms.experts;
  for (const std::span<const float> statistics : {balance, z})
    cpu::check_size(statistics.size(), 2 * experts + 2, "statistics");
  cpu::check_size(slopes.size(), experts + 3, "slopes");
  if (const DeviceOps* device = context.device_ops()) return device->moe_router_losses(terms, balance, z, slopes);
  const auto of = [&](std::span<const float> values) {
    RouterStatistics statistics(experts);
    std::copy_n(values.begin(), statistics.values.size(), statistics.values.begin());
    return statistics;
  };
  std::fill(slopes.begin(), slopes.end(), 0.0F);
  const auto at = static_cast<std::size_t>(experts);
  if (terms.balance_coefficient != 0) {
    const RouterLoss loss = moe_balance_loss(of(balance), terms.top_k, terms.balance_coefficient, terms.definition);
    std::copy(loss.dprobability_sums.begin(), loss.dprobability_sums.end(), slopes.begin());
    slopes[at + 1] = static_cast<float>(loss.loss);
  }
  if (terms.z_coefficient != 0) {
    const RouterLoss loss = moe_z_loss(of(z), terms.z_coefficient);
    slopes[at] = loss.dlse_squares, slopes[at + 2] = static_cast<float>(loss.loss);
  }
}

void moe_statistics_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                             std::span<const float> slopes, float scale, std::span<float> dlogits,
                             std::span<const std::uint8_t> mask) {
  cpu::check_size(slopes.size(), shape.experts + 1, "slopes");
  if (const DeviceOps* device = context.device_ops()) {
    cpu::check_size(logits.size(), shape.tokens * shape.experts, "logits");
    cpu::check_size(dlogits.size(), shape.tokens * shape.experts, "dlogits");
    if (!mask.empty()) cpu::check_size(mask.size(), shape.tokens, "mask");
    return device->moe_statistics_backward(shape, logits, slopes, scale, dlogits, mask);
  }
  const auto experts = static_cast<std::size_t>(shape.experts);
  RouterLoss loss;
  const std::span<const float> sums = slopes.first(experts);
  if (std::any_of(sums.begin(), sums.end(), [](float slope) { return slope != 0.0F; }))
    loss.dprobability_sums.assign(sums.begin(), sums.end());
  loss.dlse_squares = slopes[experts];
  moe_statistics_backward(context, shape, logits, loss, scale, dlogits, mask);
}

void moe_statistics_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                             const RouterLoss& loss, float scale, std::span<float> dlogits,
                             std::span<const std::uint8_t> mask) {
  const Index experts = shape.experts;
  cpu::check_size(logits.size(), shape.tokens * experts, "logits");
  cpu::check_size(dlogits.size(), shape.tokens * experts, "dlogits");
  if (!loss.dprobability_sums.empty()) cpu::check_size(loss.dprobability_sums.size(), experts, "dprobability_sums");
  if (!mask.empty()) cpu::check_size(mask.size(), shape.tokens, "mask");
  LH_ASSERT(context.device_ops() == nullptr, "a device takes the slopes where they lie");
  const bool sigmoid = shape.score == RouterScore::sigmoid;
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_for(context, shape.tokens, 64, [&](Index begin, Index end) {
    std::vector<float> p(static_cast<std::size_t>(experts)), scores(p.size());
    for (Index t = begin; t < end; ++t) {
      if (is_left_out(mask, t)) continue;
      const float* z = logits.data() + t * experts;
      float* dz = dlogits.data() + t * experts;
      if (loss.dlse_squares != 0.0F) {
        const double lse = cpu::softmax_row(kernels, z, experts, p.data());
        const float factor = scale * static_cast<float>(2.0 * lse * static_cast<double>(loss.dlse_squares));
        for (Index e = 0; e < experts; ++e) dz[e] += factor * p[static_cast<std::size_t>(e)];
      }
      if (loss.dprobability_sums.empty()) continue;
      const float* g = loss.dprobability_sums.data();
      float sum = 1.0F, mean = 0.0F;
      probability_row(kernels, shape, z, p.data(), scores.data(), &sum);
      for (Index e = 0; e < experts; ++e) mean += g[e] * p[static_cast<std::size_t>(e)];
      for (Index e = 0; e < experts; ++e) {
        const auto i = static_cast<std::size_t>(e);
        const float slope = sigmoid ? scores[i] * (1.0F - scores[i]) / sum : p[i];
        dz[e] += scale * slope * (g[e] - mean);
      }
    }
  });
}

}  // namespace longhaul
