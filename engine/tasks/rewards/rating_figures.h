// How well a reward model's numbers agree with values of attributes, and with labels of steps.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/rewards/rated_answers.h"

namespace longhaul {

// numbers: of each answer, one for each attribute. With `name` = "reward_", over the answers that have a value:
// reward_mse_ATTRIBUTE, the mean of (number - value)^2; reward_mean_only_mse_ATTRIBUTE, that of the values' mean in
// place of the number; reward_pearson_ATTRIBUTE, their correlation (left out where either is constant) with Fisher's
// interval of 95 % in _low and _high (from four values on); reward_values_ATTRIBUTE, how many there are.
std::vector<Figure> attribute_figures(const RewardForm& form, std::span<const RatedAnswer> answers,
                                      std::span<const std::vector<double>> numbers, const std::string& name);

// The first step that is not likelier right than wrong; -1: there is none.
std::int64_t first_wrong_step(std::span<const double> probabilities);
// What the labels of an answer say of it; nothing where a step before is not labelled, or none is wrong and not all
// are.
std::optional<std::int64_t> first_wrong_label(std::span<const double> labels);

// numbers: of each answer, one for each step. As ProcessBench (Zheng et al. 2024, arXiv:2412.06559, section 3.3):
// reward_wrong_accuracy, of answers with a wrong step the share of which the first one is found; reward_right_accuracy,
// of answers without one the share in which none is found; reward_first_error_f1, their harmonic mean; the three of
// each category; and reward_step_accuracy, over all steps with a label. Shares with their Wilson intervals; what there
// is nothing of is left out.
std::vector<Figure> step_figures(std::span<const RatedAnswer> answers, std::span<const std::vector<double>> numbers,
                                 const std::string& name);

}  // namespace longhaul
