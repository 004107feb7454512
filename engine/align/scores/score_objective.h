// Room engine/align/scores
// Learning numbers for an answer (reward models): losses, and the same as objectives.
// From pairs of answers bradley_terry.h has the formula with its source, score_objective.h turns a batch into loss and
// gradient; from values of attributes attribute_loss.h and attribute_objective.h do; from right and wrong steps
// step_loss.h and step_objective.h.
// It knows no files and no stage: engine/tasks/rewards makes the batches and asks trained models.
//
// Pairs of answers as an objective of the trainer, for a model with a scalar head. A batch holds pairs as neighbouring
// sequences (chosen, rejected). The one token of each that has a target is the last of its text, whose number is that
// of the answer; what the target is does not matter. per_sequence carries the pair's margin, and a 0. Sums are over
// pairs.
#pragma once

#include "contracts/settings/training/training.h"
#include "engine/align/sequence_objective.h"

namespace longhaul {

class ScoreObjective final : public SequenceObjective {
 public:
  explicit ScoreObjective(const RewardModelSettings& settings) : settings_(settings) {}

  // accuracy: the share of pairs whose chosen answer has the larger number; margin: the mean difference of the two;
  // rewards: the means of either.
  std::vector<std::string> extra_names() const override {
    return {"accuracy", "margin", "chosen_reward", "rejected_reward"};
  }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                        std::span<float> weights) override;

 private:
  RewardModelSettings settings_;
};

}  // namespace longhaul
