// Publishes the model that a training has after some step, while it goes on: contracts/records/milestone.h.
#pragma once

#include <functional>

#include "engine/tasks/common/task_run.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

// Collective; the training stands still meanwhile. Every rank calls `write_model`, which fills the folder on the
// first one (the others are given no name); the first rank adds the figures and the manifest, syncs, and publishes by
// one rename. A milestone of the same task that is there and whole is
// kept: an earlier launch of the same training came to the same bits. Where the launch names no folder for milestones
// nothing happens.
Status publish_milestone(const TaskRun& run, const MilestoneReached& reached,
                         const std::function<Status(const std::string& folder)>& write_model);

}  // namespace longhaul
