#include "orchestrator/job/job_spec.h"

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/job/request/step_plan.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

int slots_of_stage(const PlannedStage& planned, int cores) {
  if (const auto steps = steps_on_one_machine(planned, cores); !steps.empty()) return cpus_on_node(steps);
  const int ranks = planned.common.ranks, share = cores / std::max(1, ranks);
  return ranks * std::max(1, planned.common.threads > 0 ? planned.common.threads : share);
}

std::string array_folder(const std::string& run_dir, const std::string& stage, const std::string& array) {
  return join_path(stage_folder(run_dir, stage.substr(0, stage.find('/'))), "arrays/" + array);
}

JobSpec job_spec(const std::string& run_dir, const PlannedStage& planned, std::span<const PendingAct> acts, int cores,
                 bool by_script) {
  const LedgerStage& stage = *acts[0].stage;
  const LedgerAttempt& first = *acts[0].attempt;
  const bool array = by_script && !first.array.empty();
  JobSpec job;
  job.key = array ? first.array : first.key;
  job.attempt_dir =
      array ? array_folder(run_dir, planned.stage, first.array) : attempt_folder(run_dir, stage.id, first.number);
  job.worker = join_path(run_dir, "bin/longhaul-worker");
  job.slots = slots_of_stage(planned, cores);
  job.withdrawn =
      std::all_of(acts.begin(), acts.end(), [](const PendingAct& act) { return act.attempt->cancel_wanted; });
  if (!by_script) return job;
  job.script = join_path(job.attempt_dir, "job.sbatch");
  job.work_dir = run_dir;
  job.wanted_ms = first.wanted_ms;
  if (array) {
    for (const PendingAct& act : acts) job.array_tasks.push_back(act.attempt->task);
    job.array_throttle = planned.common.job.throttle;
  }
  if (first.after > 0)
    for (const LedgerAttempt& earlier : stage.attempts)
      if (earlier.number == first.after) job.after = earlier.job;
  return job;
}

std::vector<Directive> attempt_directives(const LedgerAttempt& attempt, const JobPlan& plan) {
  std::vector<Directive> directives;
  if (!attempt.exclude.empty()) {
    Directive all{"exclude", join(attempt.exclude, ","), "nodes on which earlier attempts failed"};
    for (const Directive& asked : plan.directives)
      if (asked.option == all.option)
        all = {all.option, asked.value + "," + all.value, asked.origin + "; " + all.origin};
    directives.push_back(std::move(all));
  }
  if (attempt.wall_s > 0)
    directives.push_back(
        {"time", sbatch_time(std::floor(attempt.wall_s)), "shortened to end before the next maintenance"});
  else if (attempt.number > 1 && plan.longer_wall_s > 0)
    directives.push_back({"time", sbatch_time(plan.longer_wall_s), "not the first attempt: as long as its class says"});
  return directives;
}

}  // namespace longhaul
