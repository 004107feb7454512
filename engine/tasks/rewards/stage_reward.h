// The reward of a stage's settings, with what it takes to ask it: for `align` and `sample`.
#pragma once

#include "engine/align/reward.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

// Of settings that check_alignment or check_sample passes. What a model says (model, judge) is asked elsewhere.
// Collective over the ranks where programs are to be run: where one of them cannot run them apart from its host, an
// error on all (unavailable or not_found), before anything is asked. The function may not outlive the run.
Result<RewardFunction> stage_reward(TaskRun& run, const RewardSettings& settings);

}  // namespace longhaul
