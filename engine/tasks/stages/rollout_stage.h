// A part of run_align: the methods that learn from the model's own answers (learns_from_rollouts).
#pragma once

#include "contracts/settings/training/training.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

// What the engine's table of features refuses of such a stage (contracts/settings/training/feature_table.h).
Status check_rollout_features(const AlignSettings& settings, const ModelShape& shape, const ParallelDims& dims);

// Of settings that check_alignment passes.
Status run_rollouts(TaskRun& run, const AlignSettings& settings);

}  // namespace longhaul
