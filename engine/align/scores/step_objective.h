// Answers in steps as an objective of the trainer, for a model with a scalar head. Each sequence of a batch is one
// answer. Tokens that have a target are those that end a step with a label, which is in `returns` at their place. Sums
// are over these steps.
#pragma once

#include "engine/align/sequence_objective.h"

namespace longhaul {

class StepObjective final : public SequenceObjective {
 public:
  // accuracy: the share of steps that are on their label's side of one half (a label of one half counts as right);
  // right_steps: the share that the model takes for right.
  std::vector<std::string> extra_names() const override { return {"accuracy", "right_steps"}; }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> numbers, std::span<float> weights) override;
};

}  // namespace longhaul
