#include "engine/align/dpo_objective.h"

#include <algorithm>

namespace longhaul {

ObjectiveSums DpoObjective::pair_losses(const BatchStorage& batch) {
  weights_.assign(batch.ids.size(), 0.0F);
  const auto length = static_cast<std::size_t>(batch.length);
  ObjectiveSums sums;
  sums.tokens = static_cast<double>(batch.real_tokens());
  sums.computed = static_cast<double>(batch.ids.size());
  const auto answer = [&](std::size_t sequence) {  // log-probability and length
    std::pair<double, double> sum{0, 0};
    for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t)
      if (batch.targets[t] >= 0) sum.first -= static_cast<double>(loss_[t]), sum.second += 1;
    return sum;
  };
  for (std::size_t pair = 0; pair + 1 < static_cast<std::size_t>(batch.sequences); pair += 2) {
    const auto [chosen, chosen_tokens] = answer(pair);
    const auto [rejected, rejected_tokens] = answer(pair + 1);
    const double chosen_scale = per_token_ ? 1 / std::max(1.0, chosen_tokens) : 1;
    const double rejected_scale = per_token_ ? 1 / std::max(1.0, rejected_tokens) : 1;
    const DpoLoss loss =
        dpo_loss(settings_, {chosen * chosen_scale, rejected * rejected_scale, batch.per_sequence[pair] * chosen_scale,
                             batch.per_sequence[pair + 1] * rejected_scale});
    const double sft = sft_weight_ / std::max(1.0, chosen_tokens);
    sums.loss += loss.loss - sft * chosen;
    sums.count += 1;
    sums.extra[0] += loss.margin > 0 ? 1 : 0;
    sums.extra[1] += loss.margin;
    // d log p / d(token loss) = -1.
    const double weight[2] = {-loss.d_chosen * chosen_scale + sft, -loss.d_rejected * rejected_scale};
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t t = (pair + side) * length; t < (pair + side + 1) * length; ++t)
        if (batch.targets[t] >= 0) weights_[t] = static_cast<float>(weight[side]);
  }
  return sums;
}

ObjectiveSums DpoObjective::backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                                     const GradientTarget& target) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.token_losses(context, slot, loss_);
  const ObjectiveSums sums = pair_losses(batch);
  model.backward(context, slot, weights_, loss_, target);
  return sums;
}

ObjectiveSums DpoObjective::evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.token_losses(context, slot, loss_);
  return pair_losses(batch);
}

}  // namespace longhaul
