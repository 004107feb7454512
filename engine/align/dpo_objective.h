// Room engine/align
// Direct Preference Optimization: its loss on log-probabilities, and the same as an objective of the trainer.
// dpo_objective.h turns a batch of pairs into loss and gradient; dpo.h is the formula alone, with its source.
// It knows no files and no stage: engine/tasks reads the pairs and runs the training.
//
// DPO as an objective of the trainer. A batch holds pairs as neighbouring sequences (chosen, rejected), the answers'
// tokens are those with a target, and per_sequence carries each sequence's reference log-probability (summed over the
// answer).
#pragma once

#include "contracts/settings/training/training.h"
#include "engine/align/dpo.h"
#include "engine/train/step/objective.h"

namespace longhaul {

class DpoObjective final : public Objective {
 public:
  explicit DpoObjective(const AlignSettings& settings)
      : settings_{settings.beta, settings.label_smoothing},
        sft_weight_(settings.sft_weight),
        per_token_(settings.length_normalized) {}

  ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                         const GradientTarget& target) override;
  ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) override;
  std::vector<std::string> extra_names() const override { return {"accuracy", "margin"}; }
  std::int64_t bytes() const override { return bytes_of_vector(loss_) + bytes_of_vector(weights_); }

 private:
  // Losses of the pairs from token losses; fills weights_ with the gradient of their sum by each token's loss.
  ObjectiveSums pair_losses(const BatchStorage& batch);

  DpoSettings settings_;
  double sft_weight_;
  bool per_token_;
  std::vector<float> loss_, weights_;
};

}  // namespace longhaul
