// The reward of a stage's settings, with what it takes to ask it: for `align` and `sample`.
#pragma once

#include <functional>

#include "engine/align/reward.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

// Of settings that check_alignment or check_sample passes. What a model says (model, judge) is asked elsewhere.
// Collective over the ranks where programs are to be run: where one of them cannot run them apart from its host, an
// error on all (unavailable or not_found), before anything is asked. `between` is called now and then by the thread
// that asks, while programs run; empty: nothing is.
Result<RewardFunction> stage_reward(TaskRun& run, const RewardSettings& settings, std::function<void()> between);

}  // namespace longhaul
