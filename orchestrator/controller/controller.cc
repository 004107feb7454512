#include "orchestrator/controller/controller.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "orchestrator/controller/inline_stage_runner.h"
#include "orchestrator/controller/run_scheduler.h"
#include "orchestrator/decide/in_flight.h"
#include "orchestrator/job/open_jobs.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/reuse/stage_reason.h"
#include "orchestrator/runs/order_files.h"
#include "orchestrator/runs/request_files.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/state/status_from_ledger.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr std::int64_t pulse_interval_ms = 5'000;
constexpr std::int64_t maintenance_interval_ms = 10 * 60'000;
constexpr std::int64_t hosts_interval_ms = 60'000;
constexpr std::int64_t inputs_asked_for_ms = 60'000, inputs_pause_ms = 2'000;

std::string site_group_of(const std::string& run_dir) {
  const auto site = read_toml_file(join_path(run_dir, "site.toml"));
  return site.ok() ? site->get_string("group") : std::string();
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
      messages_(run_dir_, frozen_, options.environment, clock, log),
      metrics_(run_dir_, frozen_.name, clock, log),
      trust_(artifact_trust(site_group_of(run_dir_))),
      milestones_(run_dir_, frozen_, trust_),
      earlier_(parent_path(run_dir_), frozen_.plan.workflow, frozen_.name) {
  inline_stages_ =
      inline_stage_runners({run_dir_, frozen_, options_, clock_, log_, [this] { return log_file_.check_newest(); }});
}
Controller::~Controller() = default;

Status Controller::set_up_scheduler() {
  LH_TRY(RunScheduler made, make_run_scheduler(run_dir_, frozen_, options_, clock_, log_));
  scheduler_ = std::move(made.scheduler);
  scheduler_->ask_before_acting([this] { return log_file_.check_newest(); });
  site_ = std::move(made.site);
  rules_ = std::move(made.rules);
  ask_maintenance_ = std::move(made.maintenance_ms);
  cores_ = made.cores;
  pace_ = PollPace(scheduler_->poll_interval_ms(), static_cast<std::uint64_t>(frozen_.created_ms) + epoch());
  return {};
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
  LH_CHECK(controller->set_up_scheduler());
  for (const Fact& fact : facts) controller->ledger_.apply(fact);
  LH_CHECK(controller->take_layouts());
  controller->messages_.take(facts);
  if (epoch == 0) log.info(format("event=epoch_claimed epoch={}", controller->epoch()));
  return controller;
}

bool Controller::unanswered() const {
  if (silent_ || std::ranges::any_of(inline_stages_, [](const auto& stages) { return stages->unanswered(); }))
    return true;
  const PendingActs acts = pending_acts(ledger_);
  return !acts.submit.empty() || !acts.cancel.empty();
}

bool Controller::waits_for_limits() const {
  if (silent_ || std::ranges::any_of(inline_stages_, [](const auto& stages) { return stages->unanswered(); }))
    return false;
  const PendingActs acts = pending_acts(ledger_);
  return !acts.submit.empty() && acts.cancel.empty() && std::ranges::all_of(acts.submit, [&](const PendingAct& act) {
    return refused_for_now_.contains(submission_of(act));
  });
}

RunStatus Controller::status() const {
  return status_from_ledger(run_dir_, frozen_, ledger_);
}

Result<TickOutcome> Controller::round() {
  LH_CHECK(log_file_.check_newest());
  pulse();
  LH_TRY(const Observations seen, observe());
  std::vector<Fact> decided = decide(frozen_.plan, rules_, ledger_, seen, frozen_.name);
  const std::int64_t facts_before = ledger_.facts;
  fresh_.clear();
  if (!decided.empty()) {
    if (auto fault = fault_here(FaultPoint::controller_before_intent)) return *fault;
    LH_CHECK(write(decided));
    LH_CHECK(take_layouts());
    for (const Fact& fact : decided)
      if (fact.kind == FactKind::submit || fact.kind == FactKind::submit_next) fresh_.insert(fact.text("key"));
    if (auto fault = fault_here(FaultPoint::controller_after_intent)) return *fault;
  }
  LH_CHECK(log_file_.check_newest());  // the intents are readable by whoever comes later: now they may be acted upon
  LH_CHECK(place_orders(run_dir_, ledger_));
  LH_CHECK(act());
  TickOutcome outcome;
  outcome.changed = changed_ = ledger_.facts != facts_before;
  LH_CHECK(remove_answered_requests(seen));
  if (outcome.changed)
    if (auto fault = fault_here(FaultPoint::controller_before_messages)) return *fault;
  messages_.look_and_send(ledger_);
  metrics_.look(ledger_.ended);
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
  messages_.take(facts);
  return {};
}

Result<Observations> Controller::observe() {
  Observations seen;
  const std::string requests = join_path(run_dir_, "requests");
  LH_TRY(const auto names, list_directory(requests));
  for (const std::string& name : names) {
    if (!ends_with(name, ".json")) continue;
    if (auto request = read_request(requests, name)) seen.requests.push_back(*std::move(request));
  }
  seen.orders = observe_orders(run_dir_, ledger_);
  seen.now_ms = clock_.wall_ms();
  look_for_maintenance();
  LH_CHECK(observe_jobs(seen));
  look_for_hosts(seen);
  seen.milestones = milestones_.look(ledger_);
  for (const PlannedStage* planned : wants_preparation(frozen_.plan, ledger_)) look_at_inputs(*planned, seen);
  return seen;
}

// Whoever drives the run takes what its site's group has made, and says what was there and not taken.
// An error is no reason to fail a stage for good before it was given for a minute.
void Controller::look_at_inputs(const PlannedStage& planned, Observations& seen) {
  const Deadline deadline(clock_, inputs_asked_for_ms);
  PreparedStage prepared = prepare_stage(planned, ledger_, frozen_.artifact_root, trust_);
  while (prepared.may_pass && !deadline.passed()) {
    log_.warn("event=inputs_not_read stage=" + planned.id() + " error='" + prepared.problem + "' next=try_again");
    clock_.sleep_ms(inputs_pause_ms);
    prepared = prepare_stage(planned, ledger_, frozen_.artifact_root, trust_);
  }
  if (!prepared.disbelieved.empty())
    log_.warn("event=artifact_not_believed stage=" + planned.id() + " why='" + prepared.disbelieved + "'");
  if (prepared.problem.empty() && frozen_.parent.empty()) say_why(planned, prepared);
  seen.prepared.emplace(planned.id(), std::move(prepared));
}

// For people alone: what cannot be written or found changes nothing of the run.
void Controller::say_why(const PlannedStage& planned, PreparedStage& prepared) {
  if (!prepared.raw_files.empty())
    (void)write_input_files(stage_folder(run_dir_, planned.id()), prepared.raw_files).ok();
  if (prepared.cached) return;
  prepared.why = reason_when_ready(planned, prepared, earlier_).text;
  log_.info("event=runs stage=" + planned.id() + " why='" + prepared.why + "'");
}

// Only what can go on in another job is shortened, and only what is about to be submitted needs to know.
void Controller::look_for_maintenance() {
  const auto resumable = [](const StageRules& rules) { return rules.resumable && rules.wall_s > 0; };
  if (!ask_maintenance_ || std::none_of(rules_.stages.begin(), rules_.stages.end(), resumable)) return;
  if (maintenance_asked_ns_ != 0 && clock_.monotonic_ns() - maintenance_asked_ns_ < maintenance_interval_ms * 1'000'000)
    return;
  maintenance_asked_ns_ = clock_.monotonic_ns();
  rules_.maintenance_ms = ask_maintenance_();
}

// How many hosts are left for jobs that exclude some. Where nobody answers, nothing is known, and all suspects are left
// out.
void Controller::look_for_hosts(Observations& seen) {
  if (!rules_.can_exclude) return;
  const bool bad_end = std::any_of(seen.jobs.begin(), seen.jobs.end(), [](const auto& entry) {
    const JobInfo& job = entry.second;
    return job.state == JobState::lost ||
           (job.state == JobState::ended && (!job.record || job.record->outcome != "succeeded"));
  });
  if (!hosts_matter(ledger_, bad_end)) return;
  const std::int64_t now = clock_.monotonic_ns();
  if (hosts_asked_ns_ == 0 || now - hosts_asked_ns_ > hosts_interval_ms * 1'000'000) {
    hosts_asked_ns_ = now;
    auto answer = scheduler_->hosts();
    if (!answer.ok()) log_.warn("event=hosts_not_known error='" + answer.error().message() + "' next=exclude_suspects");
    hosts_ = answer.ok() ? std::move(answer).value() : std::vector<HostSeen>();
  }
  seen.hosts = hosts_;
}

Status Controller::observe_jobs(Observations& seen) {
  for (const auto& stages : inline_stages_) LH_CHECK(stages->look(ledger_, seen.jobs));
  std::vector<OpenJob> open = open_jobs(run_dir_, ledger_);
  std::erase_if(open, [](const OpenJob& job) { return job.id == inline_job_id(job.key); });
  if (!open.empty()) LH_CHECK(ask_scheduler(open, seen));
  for (const LedgerStage& stage : ledger_.stages) {
    if (!stage.job_open()) continue;
    LH_CHECK(observe_artifact(stage, seen));
    const auto job = seen.jobs.find(stage.newest()->key);
    if (job != seen.jobs.end() && (job->second.state == JobState::ended || job->second.state == JobState::lost))
      LH_CHECK(look_at_saved(stage, job->second, seen));
  }
  return {};
}

// What decides whether a job got further is read before its end is judged: a round that cannot read it is made again.
Status Controller::look_at_saved(const LedgerStage& stage, const JobInfo& job, Observations& seen) const {
  if (job.record && job.record->outcome == "succeeded") return {};
  LH_TRY(SavedState saved, observe_saved(run_dir_, stage.id, job.record, planned_of(stage).kind != "command"));
  seen.saved.emplace(stage.id, std::move(saved));
  return {};
}

// From the scheduler when it is due; in between from the records of jobs that rang.
Status Controller::ask_scheduler(const std::vector<OpenJob>& open, Observations& seen) {
  struct stat bell{};
  const bool rang = ::stat(doorbell_path(driven_folder(run_dir_, frozen_)).c_str(), &bell) == 0 &&
                    (bell.st_mtim.tv_sec != rung_.tv_sec || bell.st_mtim.tv_nsec != rung_.tv_nsec);
  if (rang) rung_ = bell.st_mtim;
  if (pace_.due(clock_.monotonic_ns())) {
    auto jobs = scheduler_->snapshot(open);
    silent_ = !jobs.ok();
    pace_.asked(clock_.monotonic_ns(), changed_);
    if (!jobs.ok() && jobs.error().code != ErrorCode::unavailable) return jobs.error();
    if (!jobs.ok()) log_.warn("event=scheduler_unavailable error='" + jobs.error().message() + "' next=try_again");
    if (jobs.ok()) {
      for (JobInfo& job : *jobs) {
        const std::string key = job.key;
        seen.jobs.insert_or_assign(key, std::move(job));
      }
    }
  } else if (rang) {
    for (const OpenJob& job : open)
      if (auto ended = end_by_record(job)) seen.jobs.insert_or_assign(job.key, *std::move(ended));
  }
  seen.notices = scheduler_->notices();
  if (options_.unwritten_record) take_unwritten(open, seen);
  return {};
}

// Its job still runs, as its scheduler sees it: its lead waits for this round.
void Controller::take_unwritten(const std::vector<OpenJob>& open, Observations& seen) const {
  const JobRecord& record = *options_.unwritten_record;
  for (const OpenJob& job : open) {
    if (job.key != record.key || job.restarts > record.restarts) continue;
    JobInfo& info = seen.jobs[job.key];
    if (info.record) continue;
    info.key = job.key;
    info.id = job.id;
    info.state = JobState::ended;
    info.restarts = record.restarts;
    info.started_ms = record.started_ms;
    info.record = record;
  }
}

Status Controller::take_layouts() {
  for (std::size_t i = 0; i < ledger_.stages.size(); ++i) {  // in plan order
    const Value& layout = ledger_.stages[i].layout;
    const auto known = laid_out_.find(i);
    if (known == laid_out_.end() ? layout.is_null() : known->second.layout == layout) continue;
    PlannedStage& planned = frozen_.plan.stages[i];
    if (known != laid_out_.end()) planned = known->second.as_planned;  // tried again from the start
    laid_out_.erase(i);
    if (layout.is_null()) continue;
    LaidOut kept{planned, layout};
    LH_TRY(planned, with_found(planned, layout));
    if (site_ && !rules_.stages.empty()) {
      LH_TRY(rules_.stages[i], stage_rules(*site_, planned));
    }
    laid_out_.emplace(i, std::move(kept));
  }
  return {};
}

// A job that says it succeeded: is its artifact there? If so, other runs may find it from now on.
Status Controller::observe_artifact(const LedgerStage& stage, Observations& seen) {
  const auto job = seen.jobs.find(stage.newest()->key);
  if (job == seen.jobs.end() || job->second.state != JobState::ended || !job->second.record ||
      job->second.record->outcome != "succeeded")
    return {};
  auto artifact = read_artifact(join_path(stage_folder(run_dir_, stage.id), "out"), stage.key);
  if (!artifact.ok() && artifact.error().code == ErrorCode::io) return artifact.error();  // it may be whole
  if (!artifact.ok()) {
    seen.broken[stage.id] = "its job succeeded, but its artifact is not whole: " + artifact.error().message();
    return {};
  }
  // One that was steered by orders, or that faults were injected into, may not be what its key says: no other run's.
  const bool steered = artifact->figures.find("steered") != nullptr || planned_of(stage).faults.allowed;
  const Status registered = steered ? Status() : register_artifact(frozen_.artifact_root, stage.key, *artifact, trust_);
  if (!registered.ok())
    log_.warn("event=artifact_not_registered stage=" + stage.id + " error='" + registered.error().message() + "'");
  if (!steered) keep_step_time(stage, *artifact, job->second.record->ended_ms);
  seen.artifacts.emplace(stage.id, std::move(artifact).value());
  return {};
}

// What a pretraining took, for later predictions at this site (measured_trainings.h). Nothing of this run depends on
// it; where nobody can predict such a training there is nothing to keep.
void Controller::keep_step_time(const LedgerStage& stage, const ArtifactSeen& artifact, std::int64_t at_ms) const {
  constexpr double steps_min = 20;
  const PlannedStage& planned = planned_of(stage);
  const std::string constants = join_path(run_dir_, constants_file_name);
  const double rate = artifact.figures.get_number("tokens_per_s");
  const Value* rampup = planned.settings.find("batch_rampup");
  const bool alike = !planned.settings.find("phase") && (!rampup || rampup->get_integer("start") == 0);
  if (!options_.predict || planned.kind != "pretrain" || !alike || rate <= 0 || !file_exists(constants) ||
      artifact.figures.get_number("steps") < steps_min)
    return;
  const auto keep = [&]() -> Status {
    LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
    auto one = options_.predict(frozen_.plan, planned, site.config);
    if (!one.ok() && one.error().code == ErrorCode::unsupported) return {};
    if (!one.ok()) return one.error();
    one->measured = static_cast<double>(planned.settings.get_integer("global_batch_size") *
                                        planned.settings.get_integer("sequence_length")) /
                    rate;
    MeasuringStage measuring{.run = frozen_.name, .stage = stage.id, .site = site.config.name, .at_ms = at_ms};
    LH_TRY(measuring.constants_text, read_file(constants));
    return keep_measured(parent_path(run_dir_), access_of(site.values), measuring, {std::move(*one)});
  };
  if (const Status kept = keep(); !kept.ok())
    log_.warn("event=step_time_not_kept stage=" + stage.id + " error='" + kept.error().message() + "'");
}

Status Controller::remove_answered_requests(const Observations& seen) {
  for (const RequestSeen& request : seen.requests) {
    if (!ledger_.answered(request.id)) continue;
    if (auto fault = fault_here(FaultPoint::controller_after_request)) return *fault;
    LH_CHECK(remove_tree(join_path(run_dir_, "requests/" + request.id)));
  }
  return {};
}

void Controller::leave() {
  const Status newest = log_file_.check_newest();
  if (!newest.ok()) {
    const bool overtaken = newest.error().code == ErrorCode::conflict;
    if (overtaken && !scheduler_->may_be_under_way()) (void)say_nothing_is_in_flight(run_dir_, epoch()).ok();
    return;
  }
  (void)::unlink(driver_pulse_path(run_dir_).c_str());
  if (pending_acts(ledger_).submit.empty()) return;
  std::vector<Fact> facts{{FactKind::left, {}, 0, Value::make_table(), 0}};
  (void)write(facts).ok();  // without it the next one waits for longer
}

void Controller::pulse() {
  const std::int64_t now = clock_.monotonic_ns();
  if (pulse_ns_ != 0 && now - pulse_ns_ < pulse_interval_ms * 1'000'000) return;
  pulse_ns_ = now;
  (void)touch_file(driver_pulse_path(run_dir_), 0664).ok();
}

}  // namespace longhaul
