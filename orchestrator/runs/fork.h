// A run that goes on from another one's checkpoint: the same plan with other settings, the checkpoint in the new run's
// own state, and a trace of where it came from. What lies before the forked stage is found as artifacts.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/runs/run.h"

namespace longhaul {

struct ForkRequest {
  std::string stage;                          // id of the training stage
  std::int64_t step = -1;                     // of its checkpoint; -1: the newest
  std::vector<std::string> sets;              // stage.NAME.KEY=VALUE
  std::vector<std::string> environment = {};  // of the fork's jobs on a cluster (state/submit_environment.h)
};
// "pretrain@400", "sft/lr=1e-05"; "" and "@400" leave the stage open (meant_fork_stage()).
Result<ForkRequest> parse_fork_from(const std::string& text);

// The stage that a fork goes on from where nobody names one, of the ids that have a checkpoint, in the order of the
// plan: the first that one of `sets` changes; else `meant`, which any command would take, if it is among them; else the
// last. not_found: there is none. invalid_input: the sets change a matrix, whose variants have one each.
Result<std::string> meant_fork_stage(const std::vector<std::string>& saved, const std::vector<std::string>& sets,
                                     const std::string& meant);

// The plan with the changes; pure. Refused with all reasons: what the checkpoint fixes (the model's shape, the seed,
// the data before it), an end that lies before the checkpoint, and what validation would refuse. Where `rollout.ranks`
// changes, the layout stays and the stage has so many ranks more or fewer, unless `ranks` is set too.
Result<RunPlan> forked_plan(const RunPlan& plan, const ForkRequest& request, std::int64_t step);

// The step of the checkpoint that is meant; not_found lists those that are there.
Result<std::int64_t> find_fork_step(const std::string& run_dir, const ForkRequest& request);

// Makes the new run below `runs_dir`; nothing is started. The checkpoint's files are hard links where that is possible.
Result<std::string> fork_run_folder(const std::string& run_dir, const std::string& runs_dir, const ForkRequest& request,
                                    const std::string& programs_dir, const std::string& software, const Clock& clock);

}  // namespace longhaul
