// The small job that goes on with a run driven by its leads where a lead may not: one core, behind the jobs whose nodes
// would cost too much while a scheduler is waited for (contracts/records/held_allocation.h), or behind whoever leaves
// something open. It makes the controller's rounds until nothing is open, and is moved behind the next costly job, or
// cancelled while it waits, by whichever controller comes next. Where its own time is over and Slurm still takes no
// further job it is queued again itself, for that needs no submission. Only where the site has nodes that jobs share.
#pragma once

#include <string>
#include <vector>

#include "base/process/log.h"
#include "contracts/records/held_allocation.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

// A job of the run that the scheduler has, waiting or running.
struct LiveJob {
  std::string id;
  int gpus = 0;  // that it holds; a node without GPUs counts as one
};

// What has to become of the follower. Pure.
struct FollowerPlan {
  enum class Act { keep, end, move, submit };
  Act act = Act::keep;
  std::vector<std::string> behind;  // of move and submit; empty: it may start at once
};
// `inline_job`: the job that this process runs in, "" outside of one. `open`: it leaves something open.
FollowerPlan plan_follower(const Follower& now, const std::vector<LiveJob>& live, const std::string& inline_job,
                           bool open);

// "afterany:7?afterany:9": one of them has ended.
std::string follower_dependency(const std::vector<std::string>& behind);

// Brings it about. Errors: the scheduler did not answer, or refuses the job.
Status tend_follower(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                     const std::string& inline_job, bool open, const TickOptions& options, Logger& log);

}  // namespace longhaul
