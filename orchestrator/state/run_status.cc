#include "orchestrator/state/run_status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/events/event.h"
#include "orchestrator/notify/outbox.h"
#include "orchestrator/site/submission_times.h"
#include "orchestrator/state/budget.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

constexpr std::uint64_t events_tail_bytes = 64 << 10;  // some 400 lines: enough for the newest progress and figures

void read_progress(const std::string& events_path, StageStatus& status) {
  const auto size = file_size(events_path);
  std::uint64_t offset = size.ok() && *size > events_tail_bytes ? *size - events_tail_bytes : 0;
  const auto events = read_events(events_path, offset);  // a first line cut in half does not parse and is skipped
  if (!events.ok()) return;
  if (!status.figures.is_table()) status.figures = Value::make_table();
  for (const Event& event : *events) {
    if (event.kind == "figure") {
      if (const Value* value = event.fields.find("value")) status.figures.set(event.fields.get_string("name"), *value);
    } else if (event.kind == "progress") {
      status.progress_done = event.fields.get_number("done");
      status.progress_total = event.fields.get_number("total");
      status.progress_rate = event.fields.get_number("rate");
      status.eta_s = event.fields.get_number("eta_s");
      status.progress_unit = event.fields.get_string("unit");
    } else if (event.kind == "metric") {
      const auto take = [&](const char* name, std::optional<double>& newest) {
        if (const Value* value = event.fields.find(name)) newest = value->is_number() ? value->as_number() : NAN;
      };
      take("loss", status.newest_loss), take("heldout_loss", status.newest_heldout_loss);
      take("tokens_per_s", status.tokens_per_s), take("mfu", status.mfu);
    }
  }
}

void read_trials(const std::string& path, StageStatus& stage) {
  const auto text = read_file(path, 1 << 24);
  const auto document = text.ok() ? parse_json(*text, path) : Result<Value>(text.error());
  const Value* list = document.ok() ? document->find("trials") : nullptr;
  if (!list || !list->is_array()) return;
  for (const Value& entry : list->as_array()) {
    TrialStatus trial{entry.get_string("name"),
                      entry.get_string("outcome"),
                      entry.get_string("why"),
                      entry.get_string("settings"),
                      static_cast<int>(entry.get_integer("rung")),
                      entry.get_integer("steps"),
                      entry.get_string("metric"),
                      ""};
    if (const Value* value = entry.find("value"); value && value->is_number())
      trial.value = format("{:.6g}", value->as_number());
    stage.trials.push_back(std::move(trial));
  }
  if (const Value* aside = document->find("set_aside"); aside && aside->is_array())
    for (const Value& what : aside->as_array())
      if (what.is_string()) stage.set_aside.push_back(what.as_string());
}

bool is_driven(const std::string& run_dir, const RunLedger& ledger) {
  if (ledger.ended || ledger.epoch == 0) return false;
  return is_driven_by(run_dir, ledger.driver_host, ledger.driver_pid, ledger.driver_start_ticks);
}

std::string awaited_milestone(const PlannedStage& planned, const RunLedger& ledger) {
  for (const PlannedInput& input : planned.inputs) {
    const LedgerStage* source = input.milestone > 0 ? ledger.find(input.stages.front()) : nullptr;
    if (source && !source->milestones.contains(input.milestone))
      return format("milestone {} of {}", input.milestone, source->id);
  }
  return {};
}

void note_held_up(const HeldUp& held_up, StageStatus& stage) {
  stage.held_up_by = held_up.by;
  stage.held_up = held_up.cause;
  stage.held_up_advice = held_up.advice;
  stage.held_up_since_ms = held_up.since_ms;
}

std::vector<std::string> notes_of_run(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger) {
  std::vector<std::string> notes;
  if (frozen.plan.budget_node_hours > 0)
    notes.push_back(format("used {:.1f} of {:g} node-hours",
                           spent_node_hours(ledger, frozen.plan, SystemClock().wall_ms()),
                           frozen.plan.budget_node_hours));
  if (!frozen.fork.empty()) notes.push_back(frozen.fork.text());
  for (const LedgerNotice& notice : ledger.notices) notes.push_back(notice.text);
  const DeliveryReport messages = outbox_backlog(run_dir);
  if (messages.waiting > 0)
    notes.push_back(format("{} messages wait to be sent: longhaul notify {}", messages.waiting, frozen.name));
  if (messages.given_up > 0)
    notes.push_back(format("{} messages could not be sent: {}; again with: longhaul notify {}", messages.given_up,
                           messages.problem, frozen.name));
  return notes;
}

}  // namespace

std::string driver_pulse_path(const std::string& run_dir) {
  return join_path(run_dir, "log/pulse");
}

bool is_driven_by(const std::string& run_dir, const std::string& host, std::int64_t pid, std::uint64_t start_ticks) {
  if (host == host_name()) return process_alive({static_cast<pid_t>(pid), start_ticks});
  // Its driver touches this file. Only a display; nothing is decided from it.
  struct stat info{};
  if (::stat(driver_pulse_path(run_dir).c_str(), &info) != 0) return false;
  return std::time(nullptr) - info.st_mtime < driver_silence_ms / 1000;
}

const StageStatus* RunStatus::find(const std::string& id) const {
  for (const StageStatus& stage : stages)
    if (stage.id == id) return &stage;
  return nullptr;
}

RunStatus status_from_ledger(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger) {
  RunStatus status;
  status.run = run_dir;
  status.name = frozen.name;
  status.workflow = frozen.plan.workflow;
  status.workflow_path = frozen.workflow_path;
  status.state = ledger.state;
  status.created_ms = frozen.created_ms;
  status.ended_ms = ledger.ended_ms;
  status.epoch = ledger.epoch;
  status.driven = is_driven(run_dir, ledger);
  status.driver = frozen.driver;
  status.driver_uid = ledger.driver_uid;
  if (struct stat info{}; ::lstat(run_dir.c_str(), &info) == 0) {
    status.owner_uid = info.st_uid;
    status.own = info.st_uid == ::geteuid();
  }
  for (const LedgerRequest& one : ledger.requests)
    status.requests.push_back({one.what, one.answer, one.accepted, one.uid, one.wall_ms});
  for (const LedgerOrder& order : ledger.orders)
    status.orders.push_back({order.stage, order.order.text(), order.outcome, order.done});
  status.notes = notes_of_run(run_dir, frozen, ledger);
  for (std::size_t i = 0; i < ledger.stages.size(); ++i) {  // in plan order
    const LedgerStage& stage = ledger.stages[i];
    StageStatus s;
    s.id = stage.id;
    s.kind = frozen.plan.stages[i].kind;
    s.computing = computing_of(frozen.plan.stages[i]);
    s.state = stage.state;
    s.attempts = static_cast<int>(stage.attempts.size());
    s.submitted_ms = stage.submitted_ms;
    s.started_ms = stage.started_ms;
    s.ended_ms = stage.ended_ms;
    s.cause = stage.cause;
    if (stage.state == StageState::failed) s.fault = stage.fault, s.verdict = stage.verdict;
    s.why = stage.why;
    if (stage.state == StageState::waiting) s.waits_for = awaited_milestone(frozen.plan.stages[i], ledger);
    for (const auto& [step, milestone] : stage.milestones) s.milestones.push_back(step);
    s.folder = "stages/" + stage.id;
    s.artifact = stage.artifact;
    if (stage.state == StageState::cached) s.artifact_uid = stage.artifact_uid;
    const LedgerAttempt* attempt = stage.newest();
    if (attempt) s.job = attempt->job;
    if (attempt && stage.job_open()) note_held_up(attempt->held_up, s);
    if (stage.successor_open() && s.held_up_by.empty()) note_held_up(stage.successor->held_up, s);
    s.figures = stage.figures;
    if (stage.state == StageState::running && attempt)
      read_progress(join_path(attempt_folder(run_dir, stage.id, attempt->number), "events.jsonl"), s);
    if (!s.figures.is_table()) s.figures = Value::make_table();
    if (s.kind == "tune" || s.kind == "search")
      read_trials(join_path(stage_folder(run_dir, stage.id), "trials.json"), s);
    status.stages.push_back(std::move(s));
  }
  return status;
}

Result<RunStatus> read_run_status(const std::string& run_dir) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  RunLedger ledger(frozen.stage_ids());
  for (const Fact& fact : read.facts) ledger.apply(fact);
  return status_from_ledger(run_dir, frozen, ledger);
}

namespace {

Value time_or_null(std::int64_t ms) {
  return ms > 0 ? Value(static_cast<long long>(ms)) : Value();
}
Value text_or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}
Value positive_or_null(double value) {
  return value > 0 ? Value(value) : Value();
}

// What a stage that runs has reported last; a loss that is no number is null.
Value newest_value(const StageStatus& stage) {
  Value newest = Value::make_table();
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) newest.set(name, std::isfinite(*value) ? Value(*value) : Value());
  };
  add("loss", stage.newest_loss), add("heldout_loss", stage.newest_heldout_loss);
  add("tokens_per_s", stage.tokens_per_s), add("mfu", stage.mfu);
  return newest;
}

}  // namespace

Value run_status_to_value(const RunStatus& status) {
  Value value = Value::make_table();
  value.set("file", "longhaul status");
  value.set("format", status_format);
  value.set("run", status.run);
  value.set("name", status.name);
  value.set("workflow", status.workflow);
  value.set("state", to_string(status.state));
  value.set("created_ms", static_cast<long long>(status.created_ms));
  value.set("ended_ms", time_or_null(status.ended_ms));
  value.set("epoch", static_cast<long long>(status.epoch));
  value.set("driven", status.driven);
  value.set("driver", status.driver);
  value.set("owner_uid", static_cast<long long>(status.owner_uid));
  value.set("driver_uid", static_cast<long long>(status.driver_uid));
  Value stages = Value::make_array();
  for (const StageStatus& stage : status.stages) {
    Value s = Value::make_table();
    s.set("id", stage.id);
    s.set("kind", stage.kind);
    set_computing(stage.computing, s);
    s.set("state", to_string(stage.state));
    s.set("attempts", stage.attempts);
    s.set("submitted_ms", time_or_null(stage.submitted_ms));
    s.set("started_ms", time_or_null(stage.started_ms));
    s.set("ended_ms", time_or_null(stage.ended_ms));
    s.set("cause", text_or_null(stage.cause));
    if (!stage.why.empty()) s.set("why", stage.why);
    if (!stage.waits_for.empty()) s.set("waits_for", stage.waits_for);
    if (!stage.held_up_by.empty()) {
      Value held_up = Value::make_table();
      held_up.set("by", stage.held_up_by);
      held_up.set("cause", stage.held_up);
      held_up.set("advice", stage.held_up_advice);
      held_up.set("since_ms", static_cast<long long>(stage.held_up_since_ms));
      s.set("held_up", std::move(held_up));
    }
    if (!stage.milestones.empty()) s.set("milestones", ValueArray(stage.milestones.begin(), stage.milestones.end()));
    s.set("folder", stage.folder);
    s.set("artifact", text_or_null(stage.artifact));
    if (stage.artifact_uid >= 0) s.set("artifact_uid", static_cast<long long>(stage.artifact_uid));
    s.set("job", text_or_null(stage.job));
    if (!stage.trials.empty()) {
      Value& trials = s.set("trials", Value::make_array());
      for (const TrialStatus& trial : stage.trials) {
        Value entry = Value::make_table();
        entry.set("name", trial.name);
        entry.set("outcome", trial.outcome);
        entry.set("why", trial.why);
        if (!trial.settings.empty()) {
          entry.set("settings", trial.settings);
          entry.set("rung", trial.rung);
          entry.set("steps", static_cast<long long>(trial.steps));
          if (!trial.value.empty()) entry.set(trial.metric, trial.value);
        }
        trials.push_back(std::move(entry));
      }
    }
    if (!stage.set_aside.empty()) s.set("set_aside", ValueArray(stage.set_aside.begin(), stage.set_aside.end()));
    s.set("figures", stage.figures.is_table() ? stage.figures : Value::make_table());
    if (Value newest = newest_value(stage); !newest.as_table().empty()) s.set("newest", std::move(newest));
    if (stage.progress_total > 0) {
      Value progress = Value::make_table();
      progress.set("done", stage.progress_done);
      progress.set("total", stage.progress_total);
      progress.set("unit", stage.progress_unit);
      progress.set("rate", positive_or_null(stage.progress_rate));
      progress.set("eta_s", positive_or_null(stage.eta_s));
      s.set("progress", std::move(progress));
    }
    stages.push_back(std::move(s));
  }
  value.set("stages", std::move(stages));
  Value orders = Value::make_array();
  for (const OrderStatus& order : status.orders) {
    Value o = Value::make_table();
    o.set("stage", order.stage);
    o.set("order", order.text);
    o.set("outcome", text_or_null(order.outcome));
    o.set("done", order.done);
    orders.push_back(std::move(o));
  }
  value.set("orders", std::move(orders));
  Value requests = Value::make_array();
  for (const RequestStatus& request : status.requests) {
    Value r = Value::make_table();
    r.set("what", request.what);
    r.set("answer", request.answer);
    r.set("accepted", request.accepted);
    r.set("uid", static_cast<long long>(request.uid));
    r.set("at_ms", static_cast<long long>(request.at_ms));
    requests.push_back(std::move(r));
  }
  value.set("requests", std::move(requests));
  value.set("notes", ValueArray(status.notes.begin(), status.notes.end()));
  return value;
}

}  // namespace longhaul
