// What the objectives of this room share: the losses of a micro-batch's tokens are known first, what is minimised is a
// function of them, and its gradient by each goes back through the model. Where the ranks of a cp group share the
// sequences each gets the losses of all tokens, computes the same of them, and takes back the gradients of its own
// tokens; the first of them reports the sums.
#pragma once

#include <cstdint>
#include <span>

#include "engine/train/step/objective.h"

namespace longhaul {

// What an objective that judges whole texts reads of a micro-batch: all of it, also where the ranks of a cp group share
// its sequences (engine/train/step/batch_source.h). Borrowed.
struct JudgedBatch {
  JudgedBatch(const BatchStorage& batch)  // NOLINT: implicit on purpose
      : sequences(batch.sequences),
        length(batch.length),
        targets(batch.targets),
        per_sequence(batch.per_sequence),
        drawn(batch.drawn),
        reference(batch.reference),
        advantages(batch.advantages),
        values(batch.values),
        returns(batch.returns) {
    if (batch.whole_targets.empty()) return;
    targets = batch.whole_targets;
    sequences /= 2;  // pieces: context_shard.h
    length = std::ssize(targets) / sequences;
  }

  std::int64_t sequences, length;
  std::span<const std::int32_t> targets;  // [sequences, length], as all of tokens
  std::span<const double> per_sequence;
  std::span<const float> drawn, reference, advantages, values, returns;
};

class SequenceObjective : public Objective {
 public:
  ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                         const GradientTarget& target) final;
  ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) final;
  std::int64_t bytes() const final {
    return bytes_of_vector(loss_) + bytes_of_vector(weights_) + bytes_of_vector(whole_loss_) +
           bytes_of_vector(whole_weights_);
  }

 protected:
  // Of the token losses, or a reward model's numbers, [tokens, labels]; sets `weights` (0 at first), one for each, to
  // the gradient of the loss by it.
  virtual ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                std::span<float> weights) = 0;

 private:
  ObjectiveSums losses(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch);
  ObjectiveSums sums_of_whole(Llama& model, const BatchStorage& batch);
  std::vector<float> loss_, weights_;              // of this rank's tokens
  std::vector<float> whole_loss_, whole_weights_;  // of all; empty without context parallelism
};

// The answer of one sequence: its tokens with a target.
struct AnswerSum {
  double log_probability = 0, tokens = 0;
};
AnswerSum answer_sum(const JudgedBatch& batch, std::size_t sequence, std::span<const float> token_losses);
// The same weight for each token of the answer.
void set_answer_weights(const JudgedBatch& batch, std::size_t sequence, double weight, std::span<float> weights);

}  // namespace longhaul
