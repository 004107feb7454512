// Rewards, or a teacher's advantages, as an objective of the trainer. Sequences of a batch are answers of the model;
// per_sequence carries four numbers of each (AnswerPlace), and drawn and reference the log-probabilities of its tokens;
// where tokens have advantages of their own those count. Sums are over answers.
#pragma once

#include <functional>

#include "engine/align/policy_loss.h"
#include "engine/align/sequence_objective.h"

namespace longhaul {

// In per_sequence, one answer behind the other.
struct AnswerPlace {
  enum Field { advantage, token_scale, reward, right, fields };  // token_scale: of each of its tokens' losses
};

class PolicyObjective final : public SequenceObjective {
 public:
  // `more`: what else is known of the last step, for its metric; may be empty.
  PolicyObjective(const AlignSettings& settings, std::function<void(Value&)> more)
      : settings_(settings), more_(std::move(more)) {}

  // kl, clip_fraction and, with importance_cap, importance_ratio: per token, averaged over answers. With a teacher
  // there are no rewards, and kl is from it.
  std::vector<std::string> extra_names() const override;
  // With importance_cap the largest importance ratio of a token: importance_ratio_max.
  std::string largest_name() const override;
  void add_metrics(Value& fields) const override {
    if (more_) more_(fields);
  }

 protected:
  ObjectiveSums sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                        std::span<float> weights) override;

 private:
  AlignSettings settings_;
  std::function<void(Value&)> more_;
};

}  // namespace longhaul
