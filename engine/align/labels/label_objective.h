// Room engine/align/labels
// Learning from answers that are good or bad by themselves (KTO): the loss, and the same as an objective.
// label_loss.h has the formula with its source; label_objective.h turns a batch into loss and gradient.
// It knows no pairs; the estimate that the loss needs of a whole batch comes from engine/tasks/stages/label_stage.cc.
//
// Answers that are good or bad by themselves as an objective of the trainer. Each sequence of a batch is one;
// per_sequence carries the numbers of LabelPlace for each. Sums are over answers.
#pragma once

#include "engine/align/labels/label_loss.h"
#include "engine/align/sequence_objective.h"

namespace longhaul {

// In per_sequence, one answer behind the other. reference: its log-probability there; desirable: 1 or 0; divergence:
// the estimate of label_loss.h, the same for all answers of a batch.
struct LabelPlace {
  enum Field { reference, desirable, divergence, fields };
};

class LabelObjective final : public SequenceObjective {
 public:
  // Of settings that check_alignment passes.
  explicit LabelObjective(const AlignSettings& settings) : settings_(settings) {}

  // accuracy: the share of answers on their side of the divergence, good ones above it; margin: the mean log-ratio, of
  // bad answers with its sign turned.
  std::vector<std::string> extra_names() const override { return {"accuracy", "margin", "divergence_estimate"}; }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                        std::span<float> weights) override;

 private:
  AlignSettings settings_;
};

}  // namespace longhaul
