// decide() as a cluster sees it: a plan, the site's rules for it, and jobs that a test queues, starts and ends by hand.
// One minute passes between two rounds unless a test says otherwise.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/text/text.h"
#include "orchestrator/decide/decide.h"

namespace longhaul {

struct ClusterRig {
  RunPlan plan;
  SchedulingRules rules;
  RunLedger ledger;
  Observations seen;
  std::vector<Fact> decided;     // by the last round
  bool cancels_answered = true;  // by the scheduler

  ClusterRig() {
    plan.workflow = "w";
    rules.can_exclude = true;
    seen.now_ms = 1'000'000'000;
  }
  PlannedStage& stage(const std::string& name, const std::string& variant = "") {
    PlannedStage made;
    made.stage = name;
    made.variant = variant;
    made.kind = "pretrain";
    made.settings = Value::make_table();
    plan.stages.push_back(std::move(made));
    rules.stages.push_back({.shape = "one node"});
    std::vector<std::string> ids;
    for (const PlannedStage& planned : plan.stages) ids.push_back(planned.id());
    ledger = RunLedger(ids);
    return plan.stages.back();
  }
  // A stage that goes on in further jobs of an hour each.
  PlannedStage& chain(const std::string& name, double time_limit_s) {
    PlannedStage& made = stage(name);
    made.common.time_limit.value = time_limit_s;
    rules.stages.back() = {.resumable = true, .chain = true, .wall_s = 3600, .shape = "one node"};
    return made;
  }

  // One round; intents are acted upon, and every submission gets an id unless it is to stay without an answer. Returns
  // "kind stage#attempt" of what was decided.
  std::string round(bool submissions_answered = true) {
    seen.now_ms += 60'000;
    seen.prepared.clear();
    for (const PlannedStage* ready : wants_preparation(plan, ledger))
      seen.prepared[ready->id()].key = "key-" + ready->id();
    decided = decide(plan, rules, ledger, seen, "run");
    std::vector<std::string> words;
    for (Fact& fact : decided) {
      fact.wall_ms = seen.now_ms;
      ledger.apply(fact);
      words.push_back(std::string(to_string(fact.kind)) + (fact.stage.empty() ? "" : " " + fact.stage) +
                      (fact.attempt > 0 ? format("#{}", fact.attempt) : ""));
    }
    seen.requests.clear();
    seen.saved.clear();
    const PendingActs acts = pending_acts(ledger);
    if (submissions_answered)
      for (const PendingAct& act : acts.submit)
        write_fact(FactKind::submitted, act.stage->id, act.attempt->number, "job", "j" + act.attempt->key);
    for (const PendingAct& act : acts.cancel)
      if (cancels_answered && !act.attempt->job.empty())
        write_fact(FactKind::cancel_sent, act.stage->id, act.attempt->number);
    for (const PendingAct& act : acts.release) write_fact(FactKind::released, act.stage->id, act.attempt->number);
    CHECK_MESSAGE(ledger.refused.empty(), (ledger.refused.empty() ? "" : ledger.refused[0]));
    return join(words, ", ");
  }
  void write_fact(FactKind kind, const std::string& stage, int attempt, const std::string& field = {},
                  const std::string& text = {}) {
    Fact fact{kind, stage, attempt, Value::make_table(), seen.now_ms};
    if (!field.empty()) fact.fields.set(field, text);
    ledger.apply(fact);
  }
  void pass_s(std::int64_t seconds) { seen.now_ms += seconds * 1000; }
  const LedgerStage& of(const std::string& stage) const { return *ledger.find(stage); }
  const Fact& fact(FactKind kind) const {
    for (const Fact& one : decided)
      if (one.kind == kind) return one;
    FAIL("no fact " << to_string(kind));
    return decided.front();
  }

  // What the scheduler says of a stage's newest job from now on.
  JobInfo& job(const std::string& stage) {
    const LedgerAttempt& attempt = *of(stage).newest();
    JobInfo& info = seen.jobs[attempt.key];
    info.key = attempt.key;
    info.id = attempt.job;
    return info;
  }
  void run(const std::string& stage) {
    JobInfo& info = job(stage);
    info.state = JobState::running;
    info.held = false;
    if (info.started_ms == 0) info.started_ms = seen.now_ms;
  }
  void hold(const std::string& stage, int restarts) {
    JobInfo& info = job(stage);
    info.state = JobState::queued;
    info.held = true;
    info.restarts = restarts;
    info.started_ms = 0;
    info.reason = "launch_failed_requeued_held";
  }
  void succeed(const std::string& stage) {
    end(stage, "succeeded", "");
    seen.artifacts[stage] = {"/out/" + stage, "digest", Value::make_table()};
  }
  JobInfo& end(const std::string& stage, const std::string& outcome, const std::string& cause) {
    JobInfo& info = job(stage);
    info.state = JobState::ended;
    info.record = JobRecord{};
    info.record->outcome = outcome;
    info.record->cause = cause;
    info.record->exit_code = outcome == "failed" ? 1 : 0;
    info.record->started_ms = info.started_ms > 0 ? info.started_ms : seen.now_ms;
    info.record->ended_ms = seen.now_ms;
    return info;
  }
  // Its newest whole checkpoint is of this step; -1: it has none.
  void end_at_wall_time(const std::string& stage, std::int64_t saved_step) {
    end(stage, "failed", "the job's wall time is nearly over").record->ended_by = "wall_time";
    seen.saved[stage].step = saved_step;
  }
  void lose_node(const std::string& stage, const std::string& node) {
    JobInfo& info = job(stage);
    info.state = JobState::lost;
    info.end = SchedulerEnd::node_fail;
    info.cause = "Slurm says NODE_FAIL on " + node;
    info.nodes = node;
    if (node.find('[') == std::string::npos) info.lost_node = node;
  }
};

}  // namespace longhaul
