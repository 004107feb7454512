#include "orchestrator/controller/controller.h"

#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "orchestrator/controller/inline_stage_runner.h"
#include "orchestrator/decide/in_flight.h"
#include "orchestrator/job/open_jobs.h"
#include "orchestrator/runs/order_files.h"
#include "orchestrator/runs/request_files.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

constexpr std::int64_t pulse_interval_ms = 5'000;

std::string site_group_of(const std::string& run_dir) {
  const auto site = read_toml_file(join_path(run_dir, "site.toml"));
  return site.ok() ? site->get_string("group") : std::string();
}

}  // namespace

Controller::Controller(std::string run_dir, FrozenRun frozen, EpochLog log_file, const TickOptions& options,
                       Clock& clock, Logger& log)
    : run_dir_(std::move(run_dir)),
      frozen_(std::move(frozen)),
      options_(options),
      clock_(clock),
      log_(log),
      journal_(std::move(log_file), RunLedger(frozen_.stage_ids()),
               RunMessages(run_dir_, frozen_, options.environment, clock, log), clock, log),
      metrics_(run_dir_, clock, log),
      milestones_(run_dir_, frozen_, artifact_trust(site_group_of(run_dir_))),
      inputs_(controlled(), artifact_trust(site_group_of(run_dir_)),
              EarlierRuns(parent_path(run_dir_), frozen_.plan.workflow, frozen_.name)),
      observer_(controlled(), {artifact_trust(site_group_of(run_dir_)), options.predict}, options.unwritten_record),
      calls_(controlled(), {[this] { return journal_.check_newest(); },
                            [this](std::vector<Fact>& outcomes) { return journal_.write_outcomes(outcomes); }}) {
  inline_stages_ =
      inline_stage_runners({run_dir_, frozen_, options_, clock_, log_, [this] { return journal_.check_newest(); }});
}
Controller::~Controller() = default;

ControlledRun Controller::controlled() {
  return {run_dir_,
          frozen_,
          journal_.ledger(),
          scheduling_.site,
          scheduling_.rules,
          scheduling_.cores,
          options_.programs_dir,
          options_.worker_fault_plan,
          options_.notice,
          clock_,
          log_};
}

Status Controller::set_up_scheduler() {
  LH_TRY(scheduling_, make_run_scheduler(run_dir_, frozen_, options_, clock_, log_));
  Scheduler& scheduler = *scheduling_.scheduler;
  scheduler.ask_before_acting([this] { return journal_.check_newest(); });
  calls_.open(scheduler);
  observer_.open(scheduler, scheduling_.maintenance_ms, static_cast<std::uint64_t>(frozen_.created_ms) + epoch());
  return {};
}

Result<std::unique_ptr<Controller>> Controller::open(const std::string& run_dir, std::int64_t epoch,
                                                     const TickOptions& options, Clock& clock, Logger& log) {
  LH_TRY(FrozenRun frozen, read_frozen_run(run_dir));
  return open(run_dir, std::move(frozen), epoch, options, clock, log);
}

Result<std::unique_ptr<Controller>> Controller::open(const std::string& run_dir, FrozenRun frozen, std::int64_t epoch,
                                                     const TickOptions& options, Clock& clock, Logger& log) {
  const std::string folder = absolute_path(run_dir);
  std::vector<Fact> facts;
  auto log_file = epoch > 0 ? EpochLog::reopen(folder, epoch, facts) : EpochLog::claim(folder, clock, facts);
  if (!log_file.ok()) return log_file.error();
  std::unique_ptr<Controller> controller(
      new Controller(folder, std::move(frozen), std::move(log_file).value(), options, clock, log));
  LH_CHECK(controller->set_up_scheduler());
  controller->journal_.replay(facts);
  LH_CHECK(controller->take_layouts());
  if (epoch == 0) log.info(format("event=epoch_claimed epoch={}", controller->epoch()));
  return controller;
}

bool Controller::unanswered() const {
  if (observer_.is_silent() ||
      std::ranges::any_of(inline_stages_, [](const auto& stages) { return stages->unanswered(); }))
    return true;
  const PendingActs acts = pending_acts(ledger());
  return !acts.submit.empty() || !acts.cancel.empty();
}

bool Controller::waits_for_limits() const {
  if (observer_.is_silent() ||
      std::ranges::any_of(inline_stages_, [](const auto& stages) { return stages->unanswered(); }))
    return false;
  const PendingActs acts = pending_acts(ledger());
  return !acts.submit.empty() && acts.cancel.empty() &&
         std::ranges::all_of(acts.submit, [&](const PendingAct& act) { return calls_.is_refused_for_now(act); });
}

RunStatus Controller::status() const {
  return status_from_ledger(run_dir_, frozen_, ledger());
}

Result<TickOutcome> Controller::round() {
  LH_CHECK(journal_.check_newest());
  pulse();
  LH_TRY(const Observations seen, observe());
  std::vector<Fact> decided = decide(frozen_.plan, scheduling_.rules, ledger(), seen, frozen_.name);
  const std::int64_t facts_before = ledger().facts;
  calls_.begin_round();
  if (!decided.empty()) {
    if (auto fault = fault_here(FaultPoint::controller_before_intent)) return *fault;
    LH_CHECK(journal_.write(decided));
    LH_CHECK(take_layouts());
    calls_.take_decided(decided);
    if (auto fault = fault_here(FaultPoint::controller_after_intent)) return *fault;
  }
  LH_CHECK(journal_.check_newest());  // the intents are readable by whoever comes later: now they may be acted upon
  LH_CHECK(place_orders(run_dir_, ledger()));
  LH_CHECK(act());
  TickOutcome outcome;
  outcome.changed = ledger().facts != facts_before;
  observer_.note_round(outcome.changed);
  LH_CHECK(remove_answered_requests(seen));
  if (outcome.changed)
    if (auto fault = fault_here(FaultPoint::controller_before_messages)) return *fault;
  journal_.send_messages();
  metrics_.look(frozen_, ledger());
  if (auto fault = fault_here(FaultPoint::controller_end_of_tick)) return *fault;
  outcome.state = ledger().ended ? ledger().state : RunState::running;
  return outcome;
}

Result<Observations> Controller::observe() {
  Observations seen;
  const std::string requests = join_path(run_dir_, "requests");
  LH_TRY(const auto names, list_directory(requests));
  for (const std::string& name : names) {
    if (!ends_with(name, ".json")) continue;
    if (auto request = read_request(requests, name)) seen.requests.push_back(*std::move(request));
  }
  seen.orders = observe_orders(run_dir_, ledger());
  seen.now_ms = clock_.wall_ms();
  if (const auto maintenance_ms = observer_.look_for_maintenance()) scheduling_.rules.maintenance_ms = *maintenance_ms;
  for (const auto& stages : inline_stages_) LH_CHECK(stages->look(ledger(), seen.jobs));
  std::vector<OpenJob> open = open_jobs(run_dir_, ledger());
  std::erase_if(open, [](const OpenJob& job) { return job.id == inline_job_id(job.key); });
  LH_CHECK(observer_.look(open, seen));
  observer_.look_for_hosts(seen);
  seen.milestones = milestones_.look(ledger());
  for (const PlannedStage* planned : wants_preparation(frozen_.plan, ledger())) inputs_.look(*planned, seen);
  return seen;
}

// A tune or search stage is a job of this controller itself: it begins with the next round, its trials are jobs, and it
// sees by itself that it is not wanted any more.
void Controller::act_inline(PendingActs& acts, std::vector<Fact>& outcomes) const {
  const auto is_own = [&](const PendingAct& act) {
    return is_own_kind(frozen_.plan.stages[static_cast<std::size_t>(act.stage - ledger().stages.data())].kind);
  };
  std::erase_if(acts.submit, [&](const PendingAct& act) {
    if (!is_own(act)) return false;
    Value fields = Value::make_table();
    fields.set("job", inline_job_id(act.attempt->key));
    outcomes.push_back({FactKind::submitted, act.stage->id, act.attempt->number, std::move(fields), 0});
    return true;
  });
}

Status Controller::act() {
  LH_CHECK(place_orders(run_dir_, ledger()));
  PendingActs acts = pending_acts(ledger());
  std::vector<Fact> outcomes;
  act_inline(acts, outcomes);
  LH_CHECK(journal_.write_outcomes(outcomes));
  outcomes.clear();
  LH_CHECK(calls_.submit(std::move(acts.submit)));
  for (const PendingAct& act : acts.cancel) {
    if (is_own_kind(frozen_.plan.stages[static_cast<std::size_t>(act.stage - ledger().stages.data())].kind)) {
      if (!act.attempt->job.empty())
        outcomes.push_back({FactKind::cancel_sent, act.stage->id, act.attempt->number, {}, 0});
    } else {
      LH_CHECK(calls_.cancel(act, outcomes));
    }
  }
  for (const PendingAct& act : acts.release) LH_CHECK(calls_.release(act, outcomes));
  for (const PendingAct& act : acts.lift) LH_CHECK(calls_.lift_exclusions(act, outcomes));
  return journal_.write_outcomes(outcomes);
}

Status Controller::remove_answered_requests(const Observations& seen) {
  for (const RequestSeen& request : seen.requests) {
    if (!ledger().answered(request.id)) continue;
    if (auto fault = fault_here(FaultPoint::controller_after_request)) return *fault;
    LH_CHECK(remove_tree(join_path(run_dir_, "requests/" + request.id)));
  }
  return {};
}

void Controller::leave() {
  const Status newest = journal_.check_newest();
  if (!newest.ok()) {
    const bool overtaken = newest.error().code == ErrorCode::conflict;
    if (overtaken && !scheduling_.scheduler->may_be_under_way()) (void)say_nothing_is_in_flight(run_dir_, epoch()).ok();
    return;
  }
  (void)::unlink(driver_pulse_path(run_dir_).c_str());
  if (pending_acts(ledger()).submit.empty()) return;
  std::vector<Fact> facts{{FactKind::left, {}, 0, Value::make_table(), 0}};
  (void)journal_.write(facts).ok();  // without it the next one waits for longer
}

void Controller::pulse() {
  const std::int64_t now = clock_.monotonic_ns();
  if (pulse_ns_ != 0 && now - pulse_ns_ < pulse_interval_ms * 1'000'000) return;
  pulse_ns_ = now;
  (void)touch_file(driver_pulse_path(run_dir_), 0664).ok();
}

}  // namespace longhaul
