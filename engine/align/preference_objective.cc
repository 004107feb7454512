#include "engine/align/preference_objective.h"

#include <algorithm>

namespace longhaul {

PreferenceObjective::Answer PreferenceObjective::answer(const BatchStorage& batch, std::size_t sequence) const {
  Answer sum;
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t)
    if (batch.targets[t] >= 0) sum.log_probability -= static_cast<double>(loss_[t]), sum.tokens += 1;
  return sum;
}

void PreferenceObjective::set_weights(const BatchStorage& batch, std::size_t sequence, double weight) {
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t)
    if (batch.targets[t] >= 0) weights_[t] = static_cast<float>(weight);
}

ObjectiveSums PreferenceObjective::pair_losses(const BatchStorage& batch) {
  weights_.assign(batch.ids.size(), 0.0F);
  ObjectiveSums sums;
  sums.tokens = static_cast<double>(batch.real_tokens());
  sums.computed = static_cast<double>(batch.ids.size());
  for (std::size_t pair = 0; pair + 1 < static_cast<std::size_t>(batch.sequences); pair += 2) {
    const Answer chosen = answer(batch, pair), rejected = answer(batch, pair + 1);
    const bool per_token = settings_.length_normalized;
    const double chosen_scale = per_token ? 1 / std::max(1.0, chosen.tokens) : 1;
    const double rejected_scale = per_token ? 1 / std::max(1.0, rejected.tokens) : 1;
    const PairScores scores{chosen.log_probability * chosen_scale, rejected.log_probability * rejected_scale,
                            batch.per_sequence[pair] * chosen_scale, batch.per_sequence[pair + 1] * rejected_scale};
    const PairLoss loss = method_.loss(settings_, scores);
    const double sft = settings_.sft_weight / std::max(1.0, chosen.tokens);
    const double chosen_ratio = scores.chosen - scores.chosen_reference;
    const double rejected_ratio = scores.rejected - scores.rejected_reference;
    sums.loss += loss.loss - sft * chosen.log_probability;
    sums.count += 1;
    sums.extra[0] += chosen_ratio > rejected_ratio ? 1 : 0;
    sums.extra[1] += chosen_ratio - rejected_ratio;
    sums.extra[2] += settings_.beta * chosen_ratio;
    sums.extra[3] += settings_.beta * rejected_ratio;
    // d log p / d(token loss) = -1.
    set_weights(batch, pair, -loss.d_chosen * chosen_scale + sft);
    set_weights(batch, pair + 1, -loss.d_rejected * rejected_scale);
  }
  return sums;
}

ObjectiveSums PreferenceObjective::backward(const ComputeContext& context, Llama& model, int slot,
                                            const BatchStorage& batch, const GradientTarget& target) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.token_losses(context, slot, loss_);
  const ObjectiveSums sums = pair_losses(batch);
  model.backward(context, slot, weights_, loss_, target);
  return sums;
}

ObjectiveSums PreferenceObjective::evaluate(const ComputeContext& context, Llama& model, int slot,
                                            const BatchStorage& batch) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.token_losses(context, slot, loss_);
  return pair_losses(batch);
}

}  // namespace longhaul
