// The reward of a stage's settings, with what it takes to ask it: for `align` and `sample`.
#pragma once

#include "engine/align/reward.h"

namespace longhaul {

// Of settings that check_alignment or check_sample passes. What a model says (model, judge) is asked elsewhere.
Result<RewardFunction> stage_reward(const RewardSettings& settings);

}  // namespace longhaul
