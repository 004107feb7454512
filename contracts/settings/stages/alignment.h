// What the methods of `align` are and what each may be asked for. The formulas are in engine/align, a file each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

struct AlignMethod {
  const char* name;
  bool reference = false;        // compares with the log-probabilities of the model that it starts from
  bool label_smoothing = false;  // of the settings with these names, those that mean something
  bool divergence = false;
  bool reward_margin = false;
  bool per_token_only = false;     // defined on log-probabilities per token alone: length_normalized = true
  bool has_cross_entropy = false;  // the chosen answer's is part of it
  bool labels = false;             // learns from answers that are good or bad by themselves, not from pairs
};
const std::vector<AlignMethod>& align_methods();
// The end of the program if there is none of that name.
const AlignMethod& align_method(std::string_view name);

// Methods that learn from the model's own answers: from rewards of them (engine/align/group_advantage.h), or from a
// teacher (distill). The same settings but for rollout.advantage, which is grpo's, and the groups `ppo` and `reward`.
const std::vector<const char*>& rollout_methods();
bool learns_from_rollouts(std::string_view method);
// Expects what answers are worth by a model that is trained beside: ppo (engine/align/critic).
bool has_critic(std::string_view method);
// Compares its answers with another model, which is not trained: distill (engine/align/teacher_advantage.h).
bool has_teacher(std::string_view method);
// Of a stage's ranks those that only draw answers (rollout.ranks): the last ones, beside those of its layout. `kind`:
// the stage's; `settings`: complete.
int rollout_ranks_of(std::string_view kind, const Value& settings);

// Settings that do not go together, each with the key that is to be changed.
struct AlignmentProblem {
  std::string key, what, hint;
};
std::vector<AlignmentProblem> alignment_problems(const AlignSettings& settings);
// Of the reward alone, for whoever has one.
std::vector<AlignmentProblem> reward_problems(const RewardSettings& reward);
// All problems as one error (invalid_input).
Status as_one_error(std::vector<AlignmentProblem> problems);
// Whether the reward is a model and one is given: neither means anything without the other (invalid_input).
Status check_reward_input(const AlignSettings& settings, bool has_reward_model);
// The same of a method that has a teacher, and the input `teacher`.
Status check_teacher_input(const AlignSettings& settings, bool has_teacher_model);
// All of them as one error (invalid_input).
Status check_alignment(const AlignSettings& settings);

}  // namespace longhaul
