// The critic's loss as an objective of the trainer, for a model with a scalar head, whose number at the place of each
// token with a target is its value. Sequences are answers as for PolicyObjective, whose scales hold here as well;
// `values` and `returns` of the batch are those of value_loss.h. Sums are over answers.
#pragma once

#include "engine/align/sequence_objective.h"

namespace longhaul {

class ValueObjective final : public SequenceObjective {
 public:
  explicit ValueObjective(double bound) : bound_(bound) {}

  // clip_fraction: share of an answer's tokens whose bound counts; value: the mean of its values.
  std::vector<std::string> extra_names() const override { return {"clip_fraction", "value"}; }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                        std::span<float> weights) override;

 private:
  double bound_;
};

}  // namespace longhaul
