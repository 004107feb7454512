#include "orchestrator/state/run_ledger.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

using S = StageState;
using F = FactKind;
constexpr Transition transitions[] = {
    {S::waiting, F::ready, S::ready},
    {S::waiting, F::failed, S::failed},  // its inputs cannot be prepared
    {S::waiting, F::skipped, S::skipped},
    {S::waiting, F::cancelled, S::cancelled},
    {S::ready, F::cached, S::cached},
    {S::ready, F::submit, S::submitted},
    {S::ready, F::skipped, S::skipped},
    {S::ready, F::failed, S::failed},  // to be tried again, and something else ends the run
    {S::ready, F::cancelled, S::cancelled},
    {S::submitted, F::submitted, S::submitted},
    {S::submitted, F::refused, S::submitted},
    {S::submitted, F::started, S::running},
    {S::submitted, F::succeeded, S::succeeded},
    {S::submitted, F::requeued, S::submitted},
    {S::submitted, F::held_up, S::submitted},
    {S::submitted, F::release_job, S::submitted},
    {S::submitted, F::released, S::submitted},
    {S::submitted, F::lift_exclusions, S::submitted},
    {S::submitted, F::exclusions_lifted, S::submitted},
    {S::submitted, F::go_on, S::submitted},
    {S::submitted, F::retry, S::ready},
    {S::submitted, F::failed, S::failed},
    {S::submitted, F::cancel_job, S::submitted},
    {S::submitted, F::cancel_sent, S::submitted},
    {S::submitted, F::cancelled, S::cancelled},
    {S::running, F::succeeded, S::succeeded},
    {S::running, F::submit_next, S::running},
    {S::running, F::submitted, S::running},  // the successor's
    {S::running, F::refused, S::running},
    {S::running, F::held_up, S::running},  // the successor's
    {S::running, F::requeued, S::submitted},
    {S::running, F::go_on, S::submitted},
    {S::running, F::retry, S::ready},
    {S::running, F::failed, S::failed},
    {S::running, F::cancel_job, S::running},
    {S::running, F::cancel_sent, S::running},
    {S::running, F::cancelled, S::cancelled},
    // What is left of a stage's jobs when it has ended: answers to late questions.
    {S::waiting, F::cancel_sent, S::waiting},
    {S::ready, F::cancel_sent, S::ready},
    {S::cached, F::cancel_sent, S::cached},
    {S::skipped, F::cancel_sent, S::skipped},
    {S::succeeded, F::submitted, S::succeeded},
    {S::succeeded, F::refused, S::succeeded},
    {S::succeeded, F::cancel_job, S::succeeded},
    {S::succeeded, F::cancel_sent, S::succeeded},
    {S::failed, F::submitted, S::failed},
    {S::failed, F::refused, S::failed},
    {S::failed, F::cancel_job, S::failed},
    {S::failed, F::cancel_sent, S::failed},
    {S::cancelled, F::submitted, S::cancelled},
    {S::cancelled, F::refused, S::cancelled},
    {S::cancelled, F::cancel_job, S::cancelled},
    {S::cancelled, F::cancel_sent, S::cancelled},
    {S::ready, F::milestone, S::ready},
    {S::submitted, F::milestone, S::submitted},
    {S::running, F::milestone, S::running},
    {S::succeeded, F::milestone, S::succeeded},
    {S::cached, F::milestone, S::cached},
    {S::failed, F::milestone, S::failed},
    {S::cancelled, F::milestone, S::cancelled},
    {S::failed, F::reset, S::waiting},
    {S::cancelled, F::reset, S::waiting},
    {S::skipped, F::reset, S::waiting},
};

const Transition* find_transition(StageState from, FactKind fact) {
  for (const Transition& transition : transitions)
    if (transition.from == from && transition.fact == fact) return &transition;
  return nullptr;
}

RunState run_state_of(const std::string& text) {
  for (const RunState state : {RunState::succeeded, RunState::failed, RunState::cancelled})
    if (text == to_string(state)) return state;
  return RunState::running;
}

void fold_artifact(LedgerStage& stage, const Fact& fact) {
  stage.artifact = fact.text("artifact");
  stage.digest = fact.text("digest");
  if (const Value* figures = fact.fields.find("figures")) stage.figures = *figures;
  stage.cause.clear();
}

void fold_milestone(LedgerStage& stage, const Fact& fact) {
  LedgerMilestone milestone{fact.text("artifact"), fact.text("digest"), {}};
  if (const Value* figures = fact.fields.find("figures")) milestone.figures = *figures;
  stage.milestones.insert_or_assign(fact.fields.get_integer("step"), std::move(milestone));
}

std::vector<std::string> names_in(const Fact& fact, const char* key) {
  std::vector<std::string> names;
  if (const Value* list = fact.fields.find(key); list && list->is_array())
    for (const Value& name : list->as_array())
      if (name.is_string()) names.push_back(name.as_string());
  return names;
}

void fold_end(LedgerStage& stage, const Fact& fact) {
  stage.cause = fact.text("cause");
  stage.fault = fact.text("fault"), stage.verdict = fact.text("reason");
  stage.ended_ms = fact.fields.get_integer("ended_ms", fact.wall_ms);
  if (stage.started_ms == 0) stage.started_ms = fact.fields.get_integer("started_ms");
  LedgerAttempt* attempt = fact.attempt > 0 ? stage.attempt(fact.attempt) : nullptr;
  if (!attempt) return;
  attempt->release_wanted = attempt->lift_wanted = false;
  attempt->fault = fact.text("fault");
  attempt->cause = stage.cause;
  attempt->made_progress = fact.fields.get_bool("progress");
  attempt->saved = fact.text("saved");
  attempt->saved_step = fact.fields.get_integer("saved_step", no_saved_step);
  attempt->step = fact.fields.get_integer("step", -1);
  attempt->node = fact.text("node");
  attempt->nodes_left = names_in(fact, "nodes_left");
  attempt->ended_ms = stage.ended_ms;
  attempt->ran_ms = stage.started_ms > 0 ? std::max<std::int64_t>(0, stage.ended_ms - stage.started_ms) : 0;
}

LedgerAttempt attempt_of(const Fact& fact) {
  LedgerAttempt attempt;
  attempt.number = fact.attempt;
  attempt.key = fact.text("key");
  attempt.array = fact.text("array");
  attempt.task = static_cast<int>(fact.fields.get_integer("task", -1));
  attempt.after = static_cast<int>(fact.fields.get_integer("after"));
  attempt.wall_s = fact.fields.get_number("wall_s");
  attempt.exclude = names_in(fact, "exclude");
  attempt.wanted_ms = attempt.waits_since_ms = fact.wall_ms;
  return attempt;
}

void fold_order(RunLedger& ledger, const Fact& fact) {
  const Value* table = fact.fields.find("order");
  if (!table) return;
  auto order = order_from_value(*table);
  if (order.ok()) ledger.orders.push_back({fact.text("stage"), std::move(order).value(), {}, false});
}

// What a legal fact changes beside the state.
void fold_into(LedgerStage& stage, const Fact& fact) {
  LedgerAttempt* attempt = stage.attempt(fact.attempt);
  switch (fact.kind) {
    case F::ready:
      stage.key = fact.text("key");
      stage.inputs = inputs_from_value(fact.fields.find("inputs"));
      if (const Value* layout = fact.fields.find("layout")) stage.layout = *layout;
      stage.why = fact.text("why");
      break;
    case F::cached:
      fold_artifact(stage, fact);
      stage.artifact_uid = fact.fields.get_integer("owner_uid", -1);
      stage.ended_ms = fact.wall_ms;
      break;
    case F::submit:
      stage.attempts.push_back(attempt_of(fact));
      stage.last_number = std::max(stage.last_number, fact.attempt);
      stage.submitted_ms = fact.wall_ms;
      stage.started_ms = stage.ended_ms = 0;
      break;
    case F::submitted:
      if (attempt) attempt->job = fact.text("job"), attempt->submitted_ms = fact.wall_ms;
      if (attempt) attempt->held_up = {};
      break;
    case F::refused:
      if (attempt) attempt->refused = fact.text("cause");
      if (attempt) attempt->held_up = {};
      break;
    case F::held_up:
      if (!attempt) break;
      if (attempt->held_up.since_ms == 0) attempt->held_up.since_ms = fact.wall_ms;
      attempt->held_up.by = fact.text("by");
      attempt->held_up.cause = fact.text("cause");
      attempt->held_up.advice = fact.text("advice");
      break;
    case F::started:
      if (attempt) attempt->held_up = {};
      stage.started_ms = fact.fields.get_integer("started_ms", fact.wall_ms);
      if (attempt) attempt->release_wanted = attempt->lift_wanted = false;  // it was let go, whoever did it
      break;
    case F::succeeded:
      fold_end(stage, fact);
      fold_artifact(stage, fact);
      break;
    case F::submit_next:
      stage.successor = attempt_of(fact);
      stage.last_number = std::max(stage.last_number, fact.attempt);
      break;
    case F::requeued:
      if (attempt) attempt->restarts = static_cast<int>(fact.fields.get_integer("restarts"));
      if (attempt) attempt->waits_since_ms = fact.wall_ms;
      if (attempt) attempt->cancel_sent = false;  // that was its former life: it is asked for again
      if (attempt) attempt->held_up = {};
      stage.started_ms = 0;
      break;
    case F::release_job:
      if (attempt) attempt->release_wanted = true;
      break;
    case F::released:
      if (attempt) attempt->release_wanted = false, ++attempt->releases;
      break;
    case F::lift_exclusions:
      if (!attempt) break;
      attempt->exclude = names_in(fact, "exclude");
      attempt->lift_wanted = true;
      attempt->waits_since_ms = fact.wall_ms;
      break;
    case F::exclusions_lifted:
      if (attempt) attempt->lift_wanted = false;
      break;
    case F::retry:
    case F::failed:
    case F::cancelled: fold_end(stage, fact); break;
    case F::go_on:
      fold_end(stage, fact);
      if (stage.successor)
        stage.attempts.push_back(*stage.successor), stage.attempts.back().waits_since_ms = fact.wall_ms;
      stage.successor.reset();
      stage.cause.clear();
      stage.started_ms = stage.ended_ms = 0;
      break;
    case F::skipped: stage.cause = fact.text("cause"); break;
    case F::milestone: fold_milestone(stage, fact); break;
    case F::cancel_job:
      if (attempt) attempt->cancel_wanted = true;
      if (attempt && fact.fields.get_bool("given_up")) attempt->given_up = true;
      break;
    case F::cancel_sent:
      if (attempt) attempt->cancel_sent = true;
      break;
    case F::reset:
      stage.attempts_before_reset = stage.attempts.size();
      stage.cause.clear();
      stage.key.clear();
      stage.inputs.clear();
      stage.layout = {};
      stage.why.clear();
      stage.milestones.clear();  // seen again, if its next key is the same
      stage.submitted_ms = stage.started_ms = stage.ended_ms = 0;
      stage.successor.reset();
      break;
    default: break;
  }
}

}  // namespace

std::span<const Transition> stage_transitions() {
  return transitions;
}

const char* to_string(StageState state) {
  switch (state) {
    case S::waiting: return "waiting";
    case S::ready: return "ready";
    case S::submitted: return "submitted";
    case S::running: return "running";
    case S::succeeded: return "succeeded";
    case S::cached: return "cached";
    case S::failed: return "failed";
    case S::cancelled: return "cancelled";
    case S::skipped: return "skipped";
  }
  return "unknown";
}

bool is_final(StageState state) {
  return state == S::succeeded || state == S::cached || state == S::failed || state == S::cancelled ||
         state == S::skipped;
}

const char* to_string(RunState state) {
  switch (state) {
    case RunState::running: return "running";
    case RunState::succeeded: return "succeeded";
    case RunState::failed: return "failed";
    case RunState::cancelled: return "cancelled";
  }
  return "unknown";
}

LedgerAttempt* LedgerStage::attempt(int number) {
  if (successor && successor->number == number) return &*successor;
  for (auto entry = attempts.rbegin(); entry != attempts.rend(); ++entry)
    if (entry->number == number) return &*entry;
  return nullptr;
}

SavedState LedgerStage::saved_so_far() const {
  SavedState so_far;
  for (std::size_t i = attempts_before_reset; i < attempts.size(); ++i) {
    so_far.step = std::max(so_far.step, attempts[i].saved_step);
    so_far.reached = std::max(so_far.reached, attempts[i].step);
    if (!attempts[i].fault.empty()) so_far.contents = attempts[i].saved;
  }
  return so_far;
}

RunLedger::RunLedger(const std::vector<std::string>& stage_ids) {
  auto positions = std::make_shared<std::unordered_map<std::string, std::size_t>>();
  stages.reserve(stage_ids.size());
  for (const std::string& id : stage_ids) {
    positions->emplace(id, stages.size());
    stages.emplace_back();
    stages.back().id = id;
  }
  positions_ = std::move(positions);
}

const LedgerStage* RunLedger::find(const std::string& id) const {
  const auto found = positions_->find(id);
  return found == positions_->end() ? nullptr : &stages[found->second];
}
LedgerStage* RunLedger::find(const std::string& id) {
  return const_cast<LedgerStage*>(std::as_const(*this).find(id));
}

bool RunLedger::all_final() const {
  const auto to_cancel = [](const LedgerAttempt& attempt) { return attempt.given_up && !attempt.cancel_sent; };
  return std::all_of(stages.begin(), stages.end(), [&](const LedgerStage& stage) {
    return is_final(stage.state) && !stage.successor_open() &&
           std::none_of(stage.attempts.begin(), stage.attempts.end(), to_cancel);
  });
}
bool RunLedger::answered(const std::string& id) const {
  return std::ranges::any_of(requests, [&](const LedgerRequest& request) { return request.id == id; });
}

bool RunLedger::noticed(const std::string& id) const {
  return std::ranges::any_of(notices, [&](const LedgerNotice& notice) { return notice.id == id; });
}

void RunLedger::apply(const Fact& fact) {
  ++facts;
  switch (fact.kind) {
    case F::epoch:
      epoch = fact.fields.get_integer("epoch");
      driver_host = fact.text("host");
      driver_pid = fact.fields.get_integer("pid");
      driver_uid = fact.fields.get_integer("uid", -1);
      driver_start_ticks = static_cast<std::uint64_t>(fact.fields.get_integer("start_ticks"));
      if (drivers.size() == drivers_max) drivers.erase(drivers.begin());
      drivers.push_back(
          {epoch, driver_host, driver_pid, driver_start_ticks, fact.fields.get_integer("monotonic_ms", -1)});
      return;
    case F::adopted:
    case F::kept: return;
    case F::left:
      if (!drivers.empty()) drivers.back().left = true;
      return;
    case F::request:
      requests.push_back({fact.text("id"), fact.text("what"), fact.text("answer"), fact.fields.get_bool("accepted"),
                          fact.fields.get_integer("uid", -1), fact.wall_ms});
      if (!fact.fields.get_bool("accepted")) return;
      if (fact.text("what") == "tell") return fold_order(*this, fact);
      cancel_requested = fact.text("what") == "cancel";
      if (!cancel_requested) ended = false, state = RunState::running, ended_ms = 0;
      return;
    case F::noticed: notices.push_back({fact.text("id"), fact.text("text")}); return;
    case F::order_ended:
      for (LedgerOrder& order : orders)
        if (order.order.id == fact.text("id") && order.outcome.empty())
          order.outcome = fact.text("text"), order.done = fact.fields.get_bool("done");
      return;
    case F::run_ended:
      ended = true;
      state = run_state_of(fact.text("state"));
      ended_ms = fact.wall_ms;
      return;
    default: break;
  }
  LedgerStage* stage = find(fact.stage);
  const Transition* transition = stage ? find_transition(stage->state, fact.kind) : nullptr;
  if (!transition) {
    refused.push_back(format("fact {} of stage '{}' in state {}", to_string(fact.kind), fact.stage,
                             stage ? to_string(stage->state) : "unknown"));
    return;
  }
  stage->state = transition->to;
  fold_into(*stage, fact);
  if (fact.kind == F::submit || fact.kind == F::submit_next)
    if (LedgerAttempt* attempt = stage->attempt(fact.attempt)) attempt->intent_epoch = epoch;
}

Value inputs_to_value(const std::vector<TaskInput>& inputs) {
  Value list = Value::make_array();
  for (const TaskInput& input : inputs) {
    Value entry = Value::make_table();
    entry.set("name", input.name);
    entry.set("stage", input.stage);
    entry.set("digest", input.digest);
    entry.set("paths", ValueArray(input.paths.begin(), input.paths.end()));
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<TaskInput> inputs_from_value(const Value* value) {
  std::vector<TaskInput> inputs;
  if (!value || !value->is_array()) return inputs;
  for (const Value& entry : value->as_array()) {
    TaskInput input;
    input.name = entry.get_string("name");
    input.stage = entry.get_string("stage");
    input.digest = entry.get_string("digest");
    if (const Value* paths = entry.find("paths"); paths && paths->is_array())
      for (const Value& path : paths->as_array())
        if (path.is_string()) input.paths.push_back(path.as_string());
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace longhaul
