#include "orchestrator/controller/controller.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "contracts/attempt.h"
#include "orchestrator/controller/artifact_index.h"
#include "orchestrator/controller/order_files.h"
#include "orchestrator/controller/prepare.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

constexpr std::int64_t pulse_interval_ms = 5'000;

Value with(const char* name, const std::string& text) {
  Value fields = Value::make_table();
  fields.set(name, text);
  return fields;
}

// Kinds that keep checkpoints may start their ranks once more within the job.
int launches_max_of(const std::string& kind) {
  return kind == "pretrain" || kind == "sft" || kind == "align" ? 2 : 1;
}

}  // namespace

Controller::Controller(std::string run_dir, FrozenRun frozen, EpochLog log_file, const TickOptions& options,
                       Clock& clock, Logger& log)
    : run_dir_(std::move(run_dir)),
      frozen_(std::move(frozen)),
      log_file_(std::move(log_file)),
      options_(options),
      clock_(clock),
      log_(log),
      ledger_(frozen_.stage_ids()),
      messages_(run_dir_, frozen_, options.environment, clock, log) {
  auto local = std::make_unique<LocalScheduler>(run_dir_, options.cpu_slots, clock, log);
  cores_ = local->slots();
  scheduler_ = std::move(local);
}

Result<std::unique_ptr<Controller>> Controller::open(const std::string& run_dir, std::int64_t epoch,
                                                     const TickOptions& options, Clock& clock, Logger& log) {
  const std::string folder = absolute_path(run_dir);
  LH_TRY(FrozenRun frozen, read_frozen_run(folder));
  std::vector<Fact> facts;
  auto log_file = epoch > 0 ? EpochLog::reopen(folder, epoch, facts) : EpochLog::claim(folder, clock, facts);
  if (!log_file.ok()) return log_file.error();
  std::unique_ptr<Controller> controller(
      new Controller(folder, std::move(frozen), std::move(log_file).value(), options, clock, log));
  for (const Fact& fact : facts) controller->ledger_.apply(fact);
  controller->messages_.take(facts);
  controller->unindexed_ = std::move(facts);
  if (epoch == 0) log.info(format("event=epoch_claimed epoch={}", controller->epoch()));
  return controller;
}

RunStatus Controller::status() const {
  return status_from_ledger(run_dir_, frozen_, ledger_);
}

Result<TickOutcome> Controller::round() {
  LH_CHECK(log_file_.check_newest());
  pulse();
  LH_TRY(const Observations seen, observe());
  std::vector<Fact> decided = decide(frozen_.plan, ledger_, seen, frozen_.name);
  TickOutcome outcome;
  outcome.changed = !decided.empty();
  if (!decided.empty()) {
    if (auto fault = fault_here(FaultPoint::controller_before_intent)) return *fault;
    LH_CHECK(write(decided));
    if (auto fault = fault_here(FaultPoint::controller_after_intent)) return *fault;
  }
  LH_CHECK(log_file_.check_newest());  // the intents are readable by whoever comes later: now they may be acted upon
  std::vector<Fact> outcomes;
  LH_CHECK(act(outcomes));
  if (!outcomes.empty()) {
    outcome.changed = true;
    if (auto fault = fault_here(FaultPoint::controller_before_outcome)) return *fault;
    LH_CHECK(write(outcomes));
    if (auto fault = fault_here(FaultPoint::controller_after_outcome)) return *fault;
  }
  LH_CHECK(remove_answered_requests(seen));
  if (!unindexed_.empty()) {
    if (auto fault = fault_here(FaultPoint::controller_before_index)) return *fault;
    update_index();
  }
  messages_.look_and_send(ledger_);
  if (auto fault = fault_here(FaultPoint::controller_end_of_tick)) return *fault;
  outcome.state = ledger_.ended ? ledger_.state : RunState::running;
  return outcome;
}

Status Controller::write(std::vector<Fact>& facts) {
  LH_CHECK(log_file_.append(facts, clock_).with_context("cannot write the run's log"));
  for (const Fact& fact : facts) {
    ledger_.apply(fact);
    log_.info(
        format("event={} stage={} attempt={} {}", to_string(fact.kind), fact.stage, fact.attempt, fact.text("cause")));
  }
  for (; refused_logged_ < ledger_.refused.size(); ++refused_logged_)
    log_.error("event=fact_refused what='" + ledger_.refused[refused_logged_] + "'");
  unindexed_.insert(unindexed_.end(), facts.begin(), facts.end());
  messages_.take(facts);
  return {};
}

Result<Observations> Controller::observe() {
  Observations seen;
  const std::string requests = join_path(run_dir_, "requests");
  LH_TRY(const auto names, list_directory(requests));
  for (const std::string& name : names) {
    if (!ends_with(name, ".json")) continue;
    const auto text = read_file(join_path(requests, name), 1 << 20);
    if (!text.ok()) continue;  // removed meanwhile
    const auto value = parse_json(*text, name);
    seen.requests.push_back({name, value.ok() ? value->get_string("what") : "unreadable"});
    if (const Value* arguments = value.ok() ? value->find("arguments") : nullptr)
      seen.requests.back().arguments = *arguments;
  }
  seen.orders = observe_orders(run_dir_, ledger_);
  bool jobs_open = false;
  for (const LedgerStage& stage : ledger_.stages) jobs_open = jobs_open || stage.job_open();
  if (jobs_open) {
    LH_TRY(auto jobs, scheduler_->snapshot({}));
    for (JobInfo& job : jobs) {
      const std::string key = job.key;
      seen.jobs.emplace(key, std::move(job));
    }
    for (const LedgerStage& stage : ledger_.stages)
      if (stage.job_open()) observe_artifact(stage, seen);
  }
  for (const PlannedStage* planned : wants_preparation(frozen_.plan, ledger_))
    seen.prepared.emplace(planned->id(), prepare_stage(*planned, ledger_, frozen_.artifact_root));
  return seen;
}

// A job that says it succeeded: is its artifact there? If so, other runs may find it from now on.
void Controller::observe_artifact(const LedgerStage& stage, Observations& seen) {
  const auto job = seen.jobs.find(stage.newest()->key);
  if (job == seen.jobs.end() || job->second.state != JobState::ended || job->second.record->outcome != "succeeded")
    return;
  auto artifact = read_artifact(join_path(stage_folder(run_dir_, stage.id), "out"), stage.key);
  if (!artifact.ok()) {
    seen.broken[stage.id] = "its job succeeded, but its artifact is not whole: " + artifact.error().message();
    return;
  }
  // One that was steered by orders is not what its key says, and no other run's.
  const bool steered = artifact->figures.find("steered") != nullptr;
  const Status registered = steered ? Status() : register_artifact(frozen_.artifact_root, stage.key, *artifact);
  if (!registered.ok())
    log_.warn("event=artifact_not_registered stage=" + stage.id + " error='" + registered.error().message() + "'");
  seen.artifacts.emplace(stage.id, std::move(artifact).value());
}

Status Controller::act(std::vector<Fact>& outcomes) {
  LH_CHECK(place_orders(run_dir_, ledger_));
  const PendingActs acts = pending_acts(ledger_);
  for (const LedgerStage* stage : acts.submit) LH_CHECK(submit(*stage, outcomes));
  for (const LedgerStage* stage : acts.cancel) LH_CHECK(cancel(*stage, outcomes));
  return {};
}

Status Controller::submit(const LedgerStage& stage, std::vector<Fact>& outcomes) {
  const PlannedStage* planned = frozen_.plan.find(stage.id);
  LH_ASSERT(planned, "stage=" + stage.id);
  const LedgerAttempt& intent = *stage.newest();
  const Task task = make_task(*planned, frozen_.name, stage, cores_);
  Attempt attempt;
  attempt.key = intent.key;
  attempt.attempt = intent.number;
  attempt.run = frozen_.name;
  attempt.stage = stage.id;
  attempt.stage_dir = stage_folder(run_dir_, stage.id);
  attempt.attempt_dir = attempt_folder(run_dir_, stage.id, intent.number);
  attempt.task_path = join_path(attempt.stage_dir, "task.toml");
  attempt.engine = join_path(run_dir_, "bin/longhaul-engine");
  attempt.software = frozen_.software;
  attempt.time_limit_s = planned->common.time_limit.value;
  attempt.launches_max = launches_max_of(planned->kind);
  attempt.fault_plan = options_.worker_fault_plan;
  LH_CHECK(make_directories(attempt.attempt_dir));
  LH_CHECK(write_task(attempt.task_path, task));
  LH_CHECK(write_attempt(join_path(attempt.attempt_dir, "attempt.toml"), attempt));

  JobSpec job;
  job.key = intent.key;
  job.attempt_dir = attempt.attempt_dir;
  job.worker = join_path(run_dir_, "bin/longhaul-worker");
  job.slots = task.resources.ranks * task.resources.threads;
  if (auto fault = fault_here(FaultPoint::controller_before_submit)) return *fault;
  const auto submitted = scheduler_->submit_one(job);
  if (auto fault = fault_here(FaultPoint::controller_after_submit)) return *fault;
  if (!submitted.ok() && submitted.error().code == ErrorCode::unavailable) {
    log_.warn("event=scheduler_unavailable error='" + submitted.error().message() + "' next=try_again");
    return {};  // the intent stays without outcome
  }
  if (submitted.ok())
    outcomes.push_back({FactKind::submitted, stage.id, intent.number, with("job", *submitted), 0});
  else
    outcomes.push_back({FactKind::refused, stage.id, intent.number, with("cause", submitted.error().message()), 0});
  return {};
}

Status Controller::cancel(const LedgerStage& stage, std::vector<Fact>& outcomes) {
  const LedgerAttempt& attempt = *stage.newest();
  if (attempt.job.empty()) return {};  // submitted in this very round: its outcome comes first
  const Status sent = scheduler_->cancel(attempt.job);
  if (!sent.ok()) {
    log_.warn(format("event=cancel_failed stage={} error='{}' next=try_again", stage.id, sent.error().message()));
    return {};
  }
  outcomes.push_back({FactKind::cancel_sent, stage.id, attempt.number, {}, 0});
  return {};
}

Status Controller::remove_answered_requests(const Observations& seen) {
  for (const RequestSeen& request : seen.requests) {
    if (!ledger_.answered(request.id)) continue;
    if (auto fault = fault_here(FaultPoint::controller_after_request)) return *fault;
    LH_CHECK(remove_tree(join_path(run_dir_, "requests/" + request.id)));
  }
  return {};
}

// The index is a convenience: whatever is wrong with it is said and does not stop the run.
void Controller::update_index() {
  const Status updated = update_run_index(run_dir_, frozen_, ledger_, unindexed_);
  if (!updated.ok()) log_.warn("event=index_not_updated error='" + updated.error().message() + "'");
  unindexed_.clear();
}

void Controller::pulse() {
  const std::int64_t now = clock_.monotonic_ns();
  if (pulse_ns_ != 0 && now - pulse_ns_ < pulse_interval_ms * 1'000'000) return;
  pulse_ns_ = now;
  FileDescriptor fd(::open(driver_pulse_path(run_dir_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (fd.valid()) (void)::futimens(fd.get(), nullptr);
}

}  // namespace longhaul
