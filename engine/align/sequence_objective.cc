#include "engine/align/sequence_objective.h"

namespace longhaul {

namespace {

std::size_t numbers_per_token(const Llama& model) {
  return model.shape().scalar_head ? static_cast<std::size_t>(model.shape().num_labels) : 1;
}

}  // namespace

ObjectiveSums SequenceObjective::losses(const ComputeContext& context, Llama& model, int slot,
                                        const BatchStorage& batch) {
  const std::size_t numbers = batch.ids.size() * numbers_per_token(model);
  loss_.assign(numbers, 0.0F), weights_.assign(numbers, 0.0F);
  model.token_losses(context, slot, loss_);
  ObjectiveSums sums = model.context_shard().splits() ? sums_of_whole(model, batch) : sums_of(batch, loss_, weights_);
  sums.tokens = static_cast<double>(batch.real_tokens());
  sums.computed = static_cast<double>(batch.ids.size());
  return sums;
}

ObjectiveSums SequenceObjective::sums_of_whole(Llama& model, const BatchStorage& batch) {
  const ContextShard& shard = model.context_shard();
  const std::size_t numbers = loss_.size() * static_cast<std::size_t>(shard.ranks());
  whole_loss_.assign(numbers, 0.0F), whole_weights_.assign(numbers, 0.0F);
  model.whole_losses(batch.sequences, loss_, whole_loss_);
  LH_ASSERT(!batch.whole_targets.empty(), "a batch whose sequences are shared does not say what they are judged by");
  const JudgedBatch whole(batch);
  const ObjectiveSums sums = sums_of(whole, whole_loss_, whole_weights_);
  weights_ = shard.own(whole.sequences, std::ssize(whole_weights_) / whole.sequences, whole_weights_);
  return shard.rank() == 0 ? sums : ObjectiveSums();
}

ObjectiveSums SequenceObjective::backward(const ComputeContext& context, Llama& model, int slot,
                                          const BatchStorage& batch, const GradientTarget& target) {
  const ObjectiveSums sums = losses(context, model, slot, batch);
  model.backward(context, slot, weights_, loss_, target);
  return sums;
}

ObjectiveSums SequenceObjective::evaluate(const ComputeContext& context, Llama& model, int slot,
                                          const BatchStorage& batch) {
  return losses(context, model, slot, batch);
}

AnswerSum answer_sum(const JudgedBatch& batch, std::size_t sequence, std::span<const float> token_losses) {
  AnswerSum sum;
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t)
    if (batch.targets[t] >= 0) sum.log_probability -= static_cast<double>(token_losses[t]), sum.tokens += 1;
  return sum;
}

void set_answer_weights(const JudgedBatch& batch, std::size_t sequence, double weight, std::span<float> weights) {
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t)
    if (batch.targets[t] >= 0) weights[t] = static_cast<float>(weight);
}

}  // namespace longhaul
