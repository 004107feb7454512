// What the objectives of this room share: the losses of a micro-batch's tokens are known first, what is minimised is a
// function of them, and its gradient by each goes back through the model.
#pragma once

#include "engine/train/step/objective.h"

namespace longhaul {

class SequenceObjective : public Objective {
 public:
  ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                         const GradientTarget& target) final;
  ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) final;
  std::int64_t bytes() const final { return bytes_of_vector(loss_) + bytes_of_vector(weights_); }

 protected:
  // Of the token losses, or a reward model's numbers, [tokens, labels]; sets `weights` (0 at first), one for each, to
  // the gradient of the loss by it.
  virtual ObjectiveSums sums_of(const BatchStorage& batch, std::span<const float> token_losses,
                                std::span<float> weights) = 0;

 private:
  ObjectiveSums losses(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch);
  std::vector<float> loss_, weights_;
};

// The answer of one sequence: its tokens with a target.
struct AnswerSum {
  double log_probability = 0, tokens = 0;
};
AnswerSum answer_sum(const BatchStorage& batch, std::size_t sequence, std::span<const float> token_losses);
// The same weight for each token of the answer.
void set_answer_weights(const BatchStorage& batch, std::size_t sequence, double weight, std::span<float> weights);

}  // namespace longhaul
