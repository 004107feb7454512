#include "engine/train/step/objective.h"

namespace longhaul {

ObjectiveSums LanguageModelObjective::sums_of(const BatchStorage& batch) const {
  ObjectiveSums sums;
  for (std::size_t t = 0; t < loss_.size(); ++t)
    sums.loss += static_cast<double>(batch.weights[t]) * static_cast<double>(loss_[t]);
  for (const float weight : batch.weights) sums.count += static_cast<double>(weight);
  sums.tokens = static_cast<double>(batch.real_tokens());
  sums.computed = static_cast<double>(batch.ids.size());
  return sums;
}

ObjectiveSums LanguageModelObjective::backward(const ComputeContext& context, Llama& model, int slot,
                                               const BatchStorage& batch, const GradientTarget& target) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.backward(context, slot, batch.weights, loss_, target);
  return sums_of(batch);
}

ObjectiveSums LanguageModelObjective::evaluate(const ComputeContext& context, Llama& model, int slot,
                                               const BatchStorage& batch) {
  loss_.assign(batch.ids.size(), 0.0F);
  model.token_losses(context, slot, loss_);
  return sums_of(batch);
}

}  // namespace longhaul
