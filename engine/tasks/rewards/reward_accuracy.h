// How often a reward model gives the better one of two answers the larger number, of all pairs and of each category.
#pragma once

#include <span>
#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/rewards/reward_pairs.h"

namespace longhaul {

// rewards: of the chosen and the rejected answer of each pair, in order. Shares with their Wilson intervals; a tie is
// not right. With `name` = "heldout_": heldout_accuracy_low and _high (the share itself is the training loop's figure),
// heldout_length_only_accuracy, and for each category heldout_accuracy_CATEGORY and heldout_pairs_CATEGORY, in the
// order of their names.
std::vector<Figure> reward_accuracy(std::span<const RewardPair> pairs, std::span<const double> rewards,
                                    const std::string& name);

// invalid_input: more categories than anybody reads figures of.
Status check_categories(std::span<const RewardPair> pairs, const std::string& file);

}  // namespace longhaul
