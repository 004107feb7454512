// Answers with values of attributes as an objective of the trainer, for a model with a scalar head of as many labels.
// Each sequence of a batch is one answer. The one token of each that has a target is the last of its text, whose
// numbers are those of the answer. per_sequence carries the values of each sequence, one for each attribute, NaN where
// there is none. Sums are over values.
#pragma once

#include "engine/align/sequence_objective.h"

namespace longhaul {

class AttributeObjective final : public SequenceObjective {
 public:
  explicit AttributeObjective(std::int64_t attributes) : attributes_(static_cast<std::size_t>(attributes)) {}

  // absolute_error: the mean of |number - value|.
  std::vector<std::string> extra_names() const override { return {"absolute_error"}; }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> numbers, std::span<float> weights) override;

 private:
  std::size_t attributes_;
};

}  // namespace longhaul
