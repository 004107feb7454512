#include "orchestrator/controller/jobs/attempt_files.h"

#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "contracts/records/held_allocation.h"
#include "orchestrator/decide/in_flight.h"
#include "orchestrator/job/container_mounts.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/job_spec.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/job/request/step_plan.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/scheduler/slurm/slurm_identity.h"
#include "orchestrator/state/access/run_access.h"

namespace longhaul {
namespace {

constexpr double first_round_s = 5;  // after a lead's start

// One line for each task of an array, in order. Where only some of the outcomes were written, tasks of it are pending
// that are not all there are: the file has to stay what the others read as well.
std::string task_lines(const std::string& run_dir, const RunLedger& ledger, std::span<const PendingAct> acts) {
  std::vector<std::string> folders;
  const auto add = [&](const LedgerStage& stage, const LedgerAttempt& attempt) {
    const auto task = static_cast<std::size_t>(std::max(0, attempt.task));
    if (folders.size() <= task) folders.resize(task + 1);
    folders[task] = attempt_folder(run_dir, stage.id, attempt.number);
  };
  for (const PendingAct& act : acts) add(*act.stage, *act.attempt);
  if (folders.size() != acts.size())
    for (const LedgerStage& stage : ledger.stages)
      for (const LedgerAttempt& attempt : stage.attempts)
        if (attempt.array == acts[0].attempt->array) add(stage, attempt);
  return join(folders, "\n") + "\n";
}

// That the containers of a stage have to see.
OwnFolders own_folders(const ControlledRun& run, const LedgerStage& stage) {
  OwnFolders own{run.run_dir, driving_programs(run.run_dir, run.programs_dir), run.frozen.artifact_root, {}};
  for (const TaskInput& input : stage.inputs)
    own.inputs.insert(own.inputs.end(), input.paths.begin(), input.paths.end());
  return own;
}

// What its job on a cluster adds to an attempt.
Status add_cluster_job(const ControlledRun& run, const LedgerStage& stage, Attempt& attempt, Task& task) {
  const PlannedStage* planned = &run.planned_of(stage);
  const std::string programs = driving_programs(run.run_dir, run.programs_dir);
  const std::string driven = driven_folder(run.run_dir, run.frozen);
  Diagnostics diagnostics;
  JobPlan plan = plan_job(*run.site, *planned, diagnostics);
  LH_CHECK(mount_own_folders(plan, run.site->config, own_folders(run, stage)));
  attempt.launcher = plan.launcher;
  attempt.agent_launcher = plan.agent_launcher;
  attempt.container = plan.container;
  attempt.gpus_per_node = plan.gpus_per_node;
  attempt.ports = run.site->config.network.ports;
  attempt.stop_before_s = plan.stop_before_s;
  attempt.steps = plan.steps;
  task.resources.threads = planned->common.threads > 0 ? planned->common.threads : plan.cpus_per_rank;
  // Under scrontab a job that ends looks after its lines as well: Slurm disables them after a maintenance.
  const bool also_scrontab = run.frozen.driver == "scrontab" && run.site->config.can.submit_from_compute == "yes";
  if (run.frozen.driver == "lead" || also_scrontab)
    attempt.at_end = {join_path(programs, "longhaul"), "tick", driven, "--until-quiet", leave_refused_option};
  if (run.frozen.driver == "lead" && plan.chain)  // somebody has to queue the next job while this one runs
    attempt.rounds_at_s = {surely_longer_than_a_job(*planned, plan.wall_s) ? first_round_s
                                                                           : plan.wall_s * successor_share + 1};
  const int gpus = (plan.nodes + plan.spares) * std::max(1, plan.gpus_per_node);
  // Where a lead may not wait for long, somebody has to be queued behind it who can (follower.h).
  if (run.frozen.driver == "lead" && run.site->config.can.shared_nodes == "yes" && is_costly_to_hold(gpus))
    attempt.rounds_at_s.push_back(first_round_s);
  return {};
}

Status write_attempt_files(const ControlledRun& run, const PendingAct& act) {
  const LedgerStage& stage = *act.stage;
  const PlannedStage* planned = &run.planned_of(stage);
  Task task = make_task(*planned, run.frozen.name, stage, run.cores);
  Attempt attempt;
  attempt.key = act.attempt->key;
  attempt.attempt = act.attempt->number;
  attempt.run = run.frozen.name;
  attempt.stage = stage.id;
  attempt.run_dir = run.run_dir;
  attempt.stage_dir = stage_folder(run.run_dir, stage.id);
  attempt.attempt_dir = attempt_folder(run.run_dir, stage.id, act.attempt->number);
  attempt.task_path = join_path(attempt.stage_dir, "task.toml");
  const std::string programs = driving_programs(run.run_dir, run.programs_dir);
  attempt.engine = join_path(programs, "longhaul-engine");
  attempt.software = run.frozen.software;
  attempt.time_limit_s = time_left_s(*planned, stage);
  LH_TRY(attempt.at_least_step, at_least_step(run.run_dir, stage, *act.attempt));
  attempt.resiliency = planned->common.resiliency;
  if (chooses_interval(attempt.resiliency, planned->kind, planned->settings, planned->common.nodes,
                       planned->common.time_limit.value))
    attempt.resiliency.checkpoint_interval = "online";
  attempt.faults = planned->faults;
  attempt.fault_plan = run.worker_fault_plan;
  attempt.doorbell = doorbell_path(driven_folder(run.run_dir, run.frozen));
  if (run.site) LH_CHECK(add_cluster_job(run, stage, attempt, task));
  if (!run.site) attempt.steps = steps_on_one_machine(*planned, run.cores);
  LH_CHECK(make_directories(attempt.attempt_dir));
  LH_CHECK(write_task(attempt.task_path, task));
  return write_attempt(join_path(attempt.attempt_dir, "attempt.toml"), attempt);
}

// Whoever made the intent, or acted upon it since, may still be at it.
Status look_in_flight(const ControlledRun& run, const LedgerAttempt& first, JobSpec& job) {
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  const auto left = [&run](std::int64_t epoch) { return has_said_nothing_is_in_flight(run.run_dir, epoch); };
  const auto overtaken_ms = overtaken_in_flight_ms(run.ledger, first, self, host_name(), process_alive, left);
  job.in_flight = overtaken_ms.has_value();
  job.overtaken_ms = overtaken_ms.value_or(0);
  return {};
}

Status write_script(const ControlledRun& run, std::span<const PendingAct> acts, JobSpec& job) {
  const LedgerStage& stage = *acts[0].stage;
  const LedgerAttempt& first = *acts[0].attempt;
  const PlannedStage* planned = &run.planned_of(stage);
  const bool array = !first.array.empty();
  LH_CHECK(make_directories(job.attempt_dir));
  if (array)
    LH_CHECK(write_file_renamed(join_path(job.attempt_dir, "tasks.txt"), task_lines(run.run_dir, run.ledger, acts)));
  Diagnostics diagnostics;
  JobPlan plan = plan_job(*run.site, *planned, diagnostics);
  LH_CHECK(diagnostics.to_status("the site file no longer fits the workflow"));
  LH_CHECK(mount_own_folders(plan, run.site->config, own_folders(run, stage)));
  if (array && plan.running_max > 0)
    job.array_throttle = job.array_throttle > 0 ? std::min(job.array_throttle, plan.running_max) : plan.running_max;
  JobScriptContext context;
  context.run = run.frozen.name;
  context.stage = array ? planned->stage : stage.id;
  context.run_dir = run.run_dir;
  context.worker = job.worker;
  context.attempt_dir = job.attempt_dir;
  context.array = array;
  context.of_attempt = attempt_directives(first, plan);
  job.name = submission_name(sbatch_job_name("lh-" + context.run + "-" + context.stage), job.key);
  LH_TRY(const std::string script, job_script(plan, context));
  return write_file_renamed(job.script, script, 0755);
}

}  // namespace

std::size_t group_size(std::span<const PendingAct> acts) {
  std::size_t size = 1;
  if (acts[0].attempt->array.empty()) return size;
  while (size < acts.size() && acts[size].attempt->array == acts[0].attempt->array) ++size;
  return size;
}

Result<JobSpec> prepare_job(const ControlledRun& run, std::span<const PendingAct> acts, bool maybe_known) {
  const LedgerStage& stage = *acts[0].stage;
  const LedgerAttempt& first = *acts[0].attempt;
  const PlannedStage* planned = &run.planned_of(stage);
  for (const PendingAct& act : acts) LH_CHECK(write_attempt_files(run, act));
  JobSpec job = job_spec(run.run_dir, *planned, acts, run.cores, run.site.has_value());
  job.worker = join_path(driving_programs(run.run_dir, run.programs_dir), "longhaul-worker");
  job.maybe_known = maybe_known;
  if (maybe_known) LH_CHECK(look_in_flight(run, first, job));
  if (run.frozen.jobs_alone && !run.site) job.slots = run.cores;  // beside each other they would measure each other
  if (!run.site) return job;
  LH_CHECK(write_script(run, acts, job));
  return job;
}

}  // namespace longhaul
