// Room engine/align
// Losses of preferences: on log-probabilities alone, and the same as an objective of the trainer.
// preference_objective.h turns a batch of pairs into loss and gradient; pair_loss.h is the registry of the formulas.
// A method is a file beside it, with its formula and source, and a row of contracts/settings/stages/alignment.h.
// It knows no files and no stage: engine/tasks reads the pairs and runs the training.
//
// Preferences as an objective of the trainer. A batch holds pairs as neighbouring sequences (chosen, rejected), the
// answers' tokens are those with a target, and per_sequence carries each sequence's reference log-probability (summed
// over the answer; 0 for methods without a reference). sft_weight adds that share of the chosen answer's cross-entropy,
// per token.
#pragma once

#include "engine/align/pair_loss.h"
#include "engine/align/sequence_objective.h"

namespace longhaul {

class PreferenceObjective final : public SequenceObjective {
 public:
  // Of settings that check_alignment passes.
  explicit PreferenceObjective(const AlignSettings& settings)
      : settings_(settings), method_(pair_loss_method(settings.method)) {}

  // accuracy: the share of pairs whose chosen answer has the larger log-ratio to the reference (without one: the larger
  // log-probability); margin: the mean difference of the two; rewards: beta times each, as TRL has them.
  std::vector<std::string> extra_names() const override {
    return {"accuracy", "margin", "chosen_reward", "rejected_reward"};
  }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                        std::span<float> weights) override;

 private:
  AlignSettings settings_;
  const PairLossMethod& method_;
};

}  // namespace longhaul
