// What a reward model's numbers mean: which settings go together, the one reward that follows from them, and how it is
// written into the config.json of the model (HfConfig::reward_form), so that whoever asks the model needs no settings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

// Settings that do not go together, each with the key that is to be changed.
struct RewardModelProblem {
  std::string key, what, hint;
};
std::vector<RewardModelProblem> reward_model_problems(const RewardModelSettings& settings);
// All of them as one error (invalid_input).
Status check_reward_model(const RewardModelSettings& settings);

// Null of bradley-terry, whose one number is the reward; that is also what null is read as. corrupt: the file says what
// no version of ours has written.
Value reward_form_value(const RewardForm& form);
Result<RewardForm> reward_form_of(const Value& value, const std::string& file);
// How many numbers a model of this form has for a token.
std::int64_t reward_labels(const RewardForm& form);

// The reward of an answer, from its numbers: bradley-terry the number itself; attributes their weighted sum; process
// that of step_probabilities by step_aggregate. NaN of none, and of what is no number.
double one_reward(const RewardForm& form, std::span<const double> numbers);
// How likely each step is right, from its number: the logistic function, as Lightman et al. 2023 ("Let's Verify Step by
// Step") and Wang et al. 2024 ("Math-Shepherd") take the probability of the token for a right step.
std::vector<double> step_probabilities(std::span<const double> numbers);

}  // namespace longhaul
