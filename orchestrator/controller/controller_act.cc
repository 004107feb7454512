// The acting half of a controller's round: what the ledger intends and has no outcome for is done, window by window.
#include <unistd.h>

#include <algorithm>
#include <future>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "contracts/records/held_allocation.h"
#include "orchestrator/controller/controller.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/decide/held_up.h"
#include "orchestrator/decide/in_flight.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/job_spec.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/job/request/step_plan.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/order_files.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/scheduler/slurm/slurm_identity.h"
#include "orchestrator/state/access/run_access.h"

namespace longhaul {
namespace {

constexpr double first_round_s = 5;  // after a lead's start
// Between two tries of a submission that is refused for now.
constexpr std::int64_t next_try_ms_min = 5'000, next_try_ms_max = 120'000;
constexpr std::size_t window_max = 256;  // submissions whose outcomes are written together

Value with(const char* name, const std::string& text) {
  Value fields = Value::make_table();
  fields.set(name, text);
  return fields;
}

// The acts that one submission serves: one, or all tasks of one array.
std::size_t group_size(std::span<const PendingAct> acts) {
  std::size_t size = 1;
  if (acts[0].attempt->array.empty()) return size;
  while (size < acts.size() && acts[size].attempt->array == acts[0].attempt->array) ++size;
  return size;
}

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

}  // namespace

Status Controller::act() {
  LH_CHECK(place_orders(run_dir_, ledger_));
  PendingActs acts = pending_acts(ledger_);
  std::vector<Fact> outcomes;
  // A tune or search stage is a job of this controller itself: it begins with the next round, its trials are jobs.
  std::erase_if(acts.submit, [&](const PendingAct& act) {
    if (!is_own_work(*act.stage)) return false;
    outcomes.push_back(
        {FactKind::submitted, act.stage->id, act.attempt->number, with("job", inline_job_id(act.attempt->key)), 0});
    return true;
  });
  LH_CHECK(write_outcomes(outcomes));
  outcomes.clear();
  std::erase_if(acts.submit, [&](const PendingAct& act) {
    const auto refused = refused_for_now_.find(submission_of(act));
    return refused != refused_for_now_.end() && !act.attempt->cancel_wanted &&
           clock_.monotonic_ns() < refused->second.at_ns;
  });
  LH_CHECK(submit_all(acts.submit));
  for (const PendingAct& act : acts.cancel) LH_CHECK(cancel(act, outcomes));
  for (const PendingAct& act : acts.release) LH_CHECK(release(act, outcomes));
  for (const PendingAct& act : acts.lift) LH_CHECK(lift_exclusions(act, outcomes));
  return write_outcomes(outcomes);
}

// While one window is with the scheduler, the files of the next are written: the two touch different stages.
Status Controller::submit_all(std::span<const PendingAct> left) {
  const auto take_window = [&left] {
    std::size_t size = 0;
    for (std::size_t groups = 0; size < left.size() && groups < window_max; ++groups)
      size += group_size(left.subspan(size));
    const auto window = left.first(size);
    left = left.subspan(size);
    return window;
  };
  if (left.empty()) return {};
  LH_TRY(PreparedWindow window, prepare_window(take_window()));
  for (;;) {
    std::future<Result<PreparedWindow>> ahead;
    if (!left.empty())
      ahead = std::async(std::launch::async, [this, next = take_window()] { return prepare_window(next); });
    const std::int64_t facts = ledger_.facts;
    LH_CHECK(submit_window(window));
    if (!ahead.valid()) return {};
    auto prepared = ahead.get();
    if (ledger_.facts == facts) return {};  // the scheduler does not answer: no more for now
    if (!prepared.ok()) return prepared.error();
    window = std::move(prepared).value();
  }
}

Result<Controller::PreparedWindow> Controller::prepare_window(std::span<const PendingAct> acts) const {
  PreparedWindow window;
  while (!acts.empty()) {
    window.groups.push_back(acts.first(group_size(acts)));
    LH_TRY(JobSpec spec, prepare_job(window.groups.back()));
    window.specs.push_back(std::move(spec));
    acts = acts.subspan(window.groups.back().size());
  }
  return window;
}

Status Controller::write_outcomes(std::vector<Fact>& outcomes) {
  if (outcomes.empty()) return {};
  if (auto fault = fault_here(FaultPoint::controller_before_outcome)) return *fault;
  LH_CHECK(write(outcomes));
  if (auto fault = fault_here(FaultPoint::controller_after_outcome)) return *fault;
  return {};
}

Status Controller::submit_window(const PreparedWindow& window) {
  if (auto fault = fault_here(FaultPoint::controller_before_submit)) return *fault;
  const auto answers = scheduler_->submit(window.specs);
  if (auto fault = fault_here(FaultPoint::controller_after_submit)) return *fault;
  LH_CHECK(log_file_.check_newest());  // one that was overtaken meanwhile has no say in what the answers mean
  std::vector<Fact> outcomes;
  for (std::size_t i = 0; i < window.groups.size(); ++i) {
    const auto& answer = answers[i];
    if (!answer.ok() && answer.error().code == ErrorCode::unavailable) {
      if (told_.insert(window.specs[i].key).second)
        log_.warn("event=scheduler_unavailable error='" + answer.error().message() + "' next=try_again");
      take_refusal(window.groups[i], answer.error(), outcomes);
      continue;  // the intents stay without outcome, but those that were tried for long enough
    }
    told_.erase(window.specs[i].key);
    refused_for_now_.erase(window.specs[i].key);
    for (const PendingAct& act : window.groups[i]) {
      const LedgerAttempt& attempt = *act.attempt;
      if (!answer.ok())
        outcomes.push_back(
            {FactKind::refused, act.stage->id, attempt.number, with("cause", answer.error().message()), 0});
      else
        outcomes.push_back({FactKind::submitted, act.stage->id, attempt.number,
                            with("job", attempt.task < 0 ? *answer : format("{}_{}", *answer, attempt.task)), 0});
    }
  }
  return write_outcomes(outcomes);
}

// Slurm has answered, and does not take the job for now.
void Controller::take_refusal(std::span<const PendingAct> group, const Error& error, std::vector<Fact>& outcomes) {
  const Refusal refusal = refusal_in(error);
  const std::string key = submission_of(group.front());
  if (refusal == Refusal::silence) {
    refused_for_now_.erase(key);
    return;
  }
  NextTry& next = refused_for_now_[key];
  next.pause_ms = std::clamp(2 * next.pause_ms, next_try_ms_min, next_try_ms_max);
  next.at_ns = clock_.monotonic_ns() + next.pause_ms * 1'000'000;
  const std::int64_t now_ms = clock_.wall_ms();
  for (const PendingAct& act : group) {
    const HeldUp& so_far = act.attempt->held_up;
    const RefusalAct verdict = act_on_refusal(refusal, so_far, now_ms, rules_.submit_patience_ms);
    if (verdict == RefusalAct::nothing) continue;
    const bool fails = verdict == RefusalAct::fail;
    Value fields = with("cause", fails ? cause_of_long_refusal(so_far, error.what, now_ms) : error.what);
    if (!fails) {
      fields.set("by", to_string(refusal));
      fields.set("advice", error.hint);
    }
    outcomes.push_back(
        {fails ? FactKind::refused : FactKind::held_up, act.stage->id, act.attempt->number, std::move(fields), 0});
  }
}

// Everything that a job needs lies on disk before it is submitted; written again if it has to be submitted again.
Result<JobSpec> Controller::prepare_job(std::span<const PendingAct> acts) const {
  const LedgerStage& stage = *acts[0].stage;
  const LedgerAttempt& first = *acts[0].attempt;
  const PlannedStage* planned = &planned_of(stage);
  for (const PendingAct& act : acts) LH_CHECK(write_attempt_files(act));
  JobSpec job = job_spec(run_dir_, *planned, acts, cores_, site_.has_value());
  job.worker = join_path(driving_programs(run_dir_, options_.programs_dir), "longhaul-worker");
  job.maybe_known = !fresh_.contains(first.key);
  if (job.maybe_known) {
    LH_TRY(const ProcessId self, identify_process(::getpid()));
    const auto left = [this](std::int64_t epoch) { return has_said_nothing_is_in_flight(run_dir_, epoch); };
    const auto overtaken_ms = overtaken_in_flight_ms(ledger_, first, self, host_name(), process_alive, left);
    job.in_flight = overtaken_ms.has_value();
    job.overtaken_ms = overtaken_ms.value_or(0);
  }
  if (frozen_.jobs_alone && !site_) job.slots = cores_;  // beside each other they would measure each other
  if (!site_) return job;
  const bool array = !first.array.empty();
  LH_CHECK(make_directories(job.attempt_dir));
  if (array) LH_CHECK(write_file_renamed(join_path(job.attempt_dir, "tasks.txt"), task_lines(run_dir_, ledger_, acts)));
  Diagnostics diagnostics;
  JobPlan plan = plan_job(*site_, *planned, diagnostics);
  LH_CHECK(diagnostics.to_status("the site file no longer fits the workflow"));
  LH_CHECK(mount_own_folders(plan, site_->config, own_folders(stage)));
  if (array && plan.running_max > 0)
    job.array_throttle = job.array_throttle > 0 ? std::min(job.array_throttle, plan.running_max) : plan.running_max;
  JobScriptContext context;
  context.run = frozen_.name;
  context.stage = array ? planned->stage : stage.id;
  context.run_dir = run_dir_;
  context.worker = job.worker;
  context.attempt_dir = job.attempt_dir;
  context.array = array;
  context.of_attempt = attempt_directives(first, plan);
  job.name = submission_name(sbatch_job_name("lh-" + context.run + "-" + context.stage), job.key);
  LH_TRY(const std::string script, job_script(plan, context));
  LH_CHECK(write_file_renamed(job.script, script, 0755));
  return job;
}

OwnFolders Controller::own_folders(const LedgerStage& stage) const {
  OwnFolders own{run_dir_, driving_programs(run_dir_, options_.programs_dir), frozen_.artifact_root, {}};
  for (const TaskInput& input : stage.inputs)
    own.inputs.insert(own.inputs.end(), input.paths.begin(), input.paths.end());
  return own;
}

Status Controller::write_attempt_files(const PendingAct& act) const {
  const LedgerStage& stage = *act.stage;
  const PlannedStage* planned = &planned_of(stage);
  Task task = make_task(*planned, frozen_.name, stage, cores_);
  Attempt attempt;
  attempt.key = act.attempt->key;
  attempt.attempt = act.attempt->number;
  attempt.run = frozen_.name;
  attempt.stage = stage.id;
  attempt.run_dir = run_dir_;
  attempt.stage_dir = stage_folder(run_dir_, stage.id);
  attempt.attempt_dir = attempt_folder(run_dir_, stage.id, act.attempt->number);
  attempt.task_path = join_path(attempt.stage_dir, "task.toml");
  const std::string programs = driving_programs(run_dir_, options_.programs_dir);
  attempt.engine = join_path(programs, "longhaul-engine");
  attempt.software = frozen_.software;
  attempt.time_limit_s = time_left_s(*planned, stage);
  LH_TRY(attempt.at_least_step, at_least_step(run_dir_, stage, *act.attempt));
  attempt.resiliency = planned->common.resiliency;
  if (chooses_interval(attempt.resiliency, planned->kind, planned->settings, planned->common.nodes,
                       planned->common.time_limit.value))
    attempt.resiliency.checkpoint_interval = "online";
  attempt.faults = planned->faults;
  attempt.fault_plan = options_.worker_fault_plan;
  const std::string driven = driven_folder(run_dir_, frozen_);
  attempt.doorbell = doorbell_path(driven);
  if (site_) {
    Diagnostics diagnostics;
    JobPlan plan = plan_job(*site_, *planned, diagnostics);
    LH_CHECK(mount_own_folders(plan, site_->config, own_folders(stage)));
    attempt.launcher = plan.launcher;
    attempt.agent_launcher = plan.agent_launcher;
    attempt.container = plan.container;
    attempt.gpus_per_node = plan.gpus_per_node;
    attempt.ports = site_->config.network.ports;
    attempt.stop_before_s = plan.stop_before_s;
    attempt.steps = plan.steps;
    task.resources.threads = planned->common.threads > 0 ? planned->common.threads : plan.cpus_per_rank;
    // Under scrontab a job that ends looks after its lines as well: Slurm disables them after a maintenance.
    const bool also_scrontab = frozen_.driver == "scrontab" && site_->config.can.submit_from_compute == "yes";
    if (frozen_.driver == "lead" || also_scrontab)
      attempt.at_end = {join_path(programs, "longhaul"), "tick", driven, "--until-quiet", leave_refused_option};
    if (frozen_.driver == "lead" && plan.chain)  // somebody has to queue the next job while this one runs
      attempt.rounds_at_s = {surely_longer_than_a_job(*planned, plan.wall_s) ? first_round_s
                                                                             : plan.wall_s * successor_share + 1};
    const int gpus = (plan.nodes + plan.spares) * std::max(1, plan.gpus_per_node);
    // Where a lead may not wait for long, somebody has to be queued behind it who can (follower.h).
    if (frozen_.driver == "lead" && site_->config.can.shared_nodes == "yes" && is_costly_to_hold(gpus))
      attempt.rounds_at_s.push_back(first_round_s);
  }
  if (!site_) attempt.steps = steps_on_one_machine(*planned, cores_);
  LH_CHECK(make_directories(attempt.attempt_dir));
  LH_CHECK(write_task(attempt.task_path, task));
  return write_attempt(join_path(attempt.attempt_dir, "attempt.toml"), attempt);
}

Status Controller::cancel(const PendingAct& act, std::vector<Fact>& outcomes) {
  const LedgerAttempt& attempt = *act.attempt;
  if (attempt.job.empty()) return {};  // its submission has no outcome yet: that comes first
  if (is_own_work(*act.stage)) {       // it sees by itself that it is not wanted any more
    outcomes.push_back({FactKind::cancel_sent, act.stage->id, attempt.number, {}, 0});
    return {};
  }
  Attempt asked;
  asked.attempt_dir = attempt_folder(run_dir_, act.stage->id, attempt.number);
  if (const Status noted = write_file_renamed(asked.cancelled_path(), ""); !noted.ok())
    log_.warn("event=cancellation_not_noted error='" + noted.error().message() + "'");  // its lead takes it for Slurm's
  const Status sent = scheduler_->cancel(attempt.job);
  if (!sent.ok()) {
    if (told_.insert("cancel " + attempt.key).second)
      log_.warn(
          format("event=cancel_failed stage={} error='{}' next=try_again", act.stage->id, sent.error().message()));
    return {};
  }
  outcomes.push_back({FactKind::cancel_sent, act.stage->id, attempt.number, {}, 0});
  return {};
}

Status Controller::release(const PendingAct& act, std::vector<Fact>& outcomes) {
  const Status sent = scheduler_->release(act.attempt->job);
  if (!sent.ok()) {
    log_.warn(format("event=release_failed stage={} error='{}' next=try_again", act.stage->id, sent.error().message()));
    return {};
  }
  outcomes.push_back({FactKind::released, act.stage->id, act.attempt->number, {}, 0});
  return {};
}

// What the user does not want stays unwanted.
Status Controller::lift_exclusions(const PendingAct& act, std::vector<Fact>& outcomes) {
  if (act.attempt->job.empty()) return {};
  std::vector<std::string> hosts = act.attempt->exclude;
  if (const std::string& asked = planned_of(*act.stage).common.job.exclude; !asked.empty())
    hosts.insert(hosts.begin(), asked);
  const Status sent = scheduler_->exclude_only(act.attempt->job, hosts);
  if (!sent.ok()) {
    if (told_.insert("lift " + act.attempt->key).second)
      log_.warn(format("event=exclusions_not_lifted stage={} error='{}' next=try_again", act.stage->id,
                       sent.error().message()));
    return {};
  }
  told_.erase("lift " + act.attempt->key);
  outcomes.push_back({FactKind::exclusions_lifted, act.stage->id, act.attempt->number, {}, 0});
  return {};
}

}  // namespace longhaul
