#include "base/text/text.h"
#include "orchestrator/decide/needs.h"
#include "orchestrator/decide/round.h"
#include "orchestrator/state/budget.h"

namespace longhaul {
namespace {

// It does not run any more. A stage whose jobs have ended badly has failed with the cause of the last one, whatever
// became of the stages beside it; only what never ran is skipped.
void give_up(Round& round, const LedgerStage& stage, const std::string& why) {
  const LedgerAttempt* last = stage.attempts.size() > stage.attempts_before_reset ? stage.newest() : nullptr;
  if (!last || last->cause.empty() || stage.started_ms == 0)
    return round.emit(FactKind::skipped, stage.id, 0, because(why));
  Value fields = because(last->cause + "; not tried again: " + why);
  fields.set("fault", last->fault);
  fields.set("started_ms", static_cast<long long>(last->ended_ms - last->ran_ms));
  fields.set("ended_ms", static_cast<long long>(last->ended_ms));
  round.emit(FactKind::failed, stage.id, 0, std::move(fields));
}

void advance(Round& round, LedgerStage& stage) {
  if (stage.state != StageState::waiting) return;
  const auto found = round.seen.prepared.find(stage.id);
  if (found == round.seen.prepared.end()) return;
  const PreparedStage& prepared = found->second;
  if (!prepared.problem.empty()) {
    Value fields = because(prepared.problem);
    fields.set("fault", to_string(FaultClass::bad_input));
    return round.emit(FactKind::failed, stage.id, 0, std::move(fields));
  }
  Value fields = Value::make_table();
  fields.set("key", prepared.key);
  fields.set("inputs", inputs_to_value(prepared.inputs));
  if (!prepared.found.is_null()) fields.set("layout", prepared.found);
  if (!prepared.why.empty()) fields.set("why", prepared.why);
  round.emit(FactKind::ready, stage.id, 0, std::move(fields));
  if (!prepared.cached) return;
  Value artifact = Value::make_table();
  put_artifact(artifact, *prepared.cached);
  round.emit(FactKind::cached, stage.id, 0, std::move(artifact));
}

}  // namespace

void cancel_everything(Round& round) {
  for (LedgerStage& stage : round.now.stages) {
    if (stage.state == StageState::waiting || stage.state == StageState::ready)
      round.emit(FactKind::cancelled, stage.id, 0, because("cancelled on request before it was submitted"));
    else if (stage.job_open() && stage.newest()->refused.empty() && !stage.newest()->cancel_wanted)
      round.emit(FactKind::cancel_job, stage.id, stage.newest()->number, {});
  }
}

void skip_what_cannot_run(Round& round) {
  const LedgerStage* stopper = nullptr;
  for (const LedgerStage& stage : round.now.stages)
    if (stage.state == StageState::failed && round.planned_of(stage).common.on_failure == "stop") stopper = &stage;
  const bool spent = budget_spent(round.now, round.plan, round.seen.now_ms);
  for (LedgerStage& stage : round.now.stages) {  // in plan order: a skipped need is seen by what comes after
    if (stage.state != StageState::waiting && stage.state != StageState::ready) continue;
    const PlannedStage& planned = round.planned_of(stage);
    if (spent) {
      give_up(round, stage, format("the run's budget of {:g} node-hours is used up", round.plan.budget_node_hours));
      continue;
    }
    if (stopper && !runs_after_failure(planned, round.now)) {
      give_up(round, stage, format("stage {} failed and stops the run (on_failure = stop)", stopper->id));
      continue;
    }
    const std::string blocker = blocked_by(round.plan, round.now, planned, round.seen);
    if (!blocker.empty()) give_up(round, stage, blocker);
  }
}

void advance_stages(Round& round) {
  for (LedgerStage& stage : round.now.stages) advance(round, stage);
}

RunState state_at_end(const Round& round) {
  RunState state = RunState::succeeded;
  for (const LedgerStage& stage : round.now.stages) {
    const bool tolerated = round.planned_of(stage).common.on_failure == "continue";
    if (stage.state == StageState::failed && !tolerated && state == RunState::succeeded) state = RunState::failed;
    if (stage.state == StageState::cancelled) state = RunState::cancelled;
    if (stage.state == StageState::skipped && state == RunState::succeeded &&
        (budget_spent(round.now, round.plan, round.seen.now_ms) || lacks_milestone(round.planned_of(stage), round.now)))
      state = RunState::failed;
  }
  return state;
}

}  // namespace longhaul
