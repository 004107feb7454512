#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/decide/job_end.h"
#include "orchestrator/decide/job_room.h"
#include "orchestrator/decide/round.h"
#include "orchestrator/state/budget.h"
#include "resiliency/retry_policy.h"

namespace longhaul {
namespace {

constexpr int releases_max = 3;  // of a job that the scheduler holds

Value ended_fields(const Round& round, const LedgerAttempt& attempt, std::int64_t started_ms, std::int64_t ended_ms) {
  const JobTimes ours = times_by_our_clock({started_ms, ended_ms}, attempt.wanted_ms, round.seen.now_ms);
  Value fields = Value::make_table();
  if (ours.started_ms > 0) fields.set("started_ms", static_cast<long long>(ours.started_ms));
  if (ours.ended_ms > 0) fields.set("ended_ms", static_cast<long long>(ours.ended_ms));
  return fields;
}

RetryBudgets budgets_of(const Round& round, const LedgerStage& stage) {
  const StageCommon& common = round.planned_of(stage).common;
  const StageRules* rules = round.rules_of(stage);
  RetryBudgets budgets;
  budgets.application = common.retries;
  budgets.infrastructure = common.infrastructure_retries;
  budgets.resumable = rules ? rules->resumable : is_resumable(round.planned_of(stage).kind, common.job);
  budgets.can_exclude = round.rules.can_exclude;
  return budgets;
}

void ended_badly(Round& round, LedgerStage& stage, const JobEnd& end) {
  const int number = stage.newest()->number;
  // Of a job that left no record, now is when it is known: what its node is suspected of has to begin some time.
  Value fields =
      ended_fields(round, *stage.newest(), end.started_ms, end.ended_ms > 0 ? end.ended_ms : round.seen.now_ms);
  fields.set("cause", end.cause);
  if (round.now.cancel_requested) {
    if (end.fault == FaultClass::interrupted || end.fault == FaultClass::cancelled)
      fields.set("cause", "cancelled on request");
    return round.emit(FactKind::cancelled, stage.id, number, std::move(fields));
  }
  std::vector<PastEnd> ends;
  for (std::size_t i = stage.attempts_before_reset; i + 1 < stage.attempts.size(); ++i) {
    const LedgerAttempt& past = stage.attempts[i];
    ends.push_back({fault_class_of(past.fault), past.cause, past.made_progress, past.node});
  }
  const SavedState before = stage.saved_so_far();
  const auto looked = round.seen.saved.find(stage.id);
  SavedState saved = looked != round.seen.saved.end() ? looked->second : SavedState{no_saved_step, before.contents};
  saved.reached = end.step;
  const bool progress = made_progress(saved, before);
  if (saved.step > no_saved_step) fields.set("saved_step", static_cast<long long>(saved.step));
  if (!saved.contents.empty()) fields.set("saved", saved.contents);
  ends.push_back({end.fault, end.cause, progress, end.node});
  const RetryVerdict verdict = decide_retry(ends, budgets_of(round, stage));
  fields.set("fault", to_string(end.fault));
  fields.set("reason", verdict.reason);
  fields.set("progress", progress);
  if (end.step >= 0) fields.set("step", static_cast<long long>(end.step));
  if (!end.node.empty()) fields.set("node", end.node);
  ValueArray left(end.nodes_left.begin(), end.nodes_left.end());
  if (!left.empty()) fields.set("nodes_left", Value(std::move(left)));
  const bool successor = stage.successor && stage.successor->refused.empty() && !stage.successor->cancel_wanted;
  round.emit(!verdict.again ? FactKind::failed
             : successor    ? FactKind::go_on
                            : FactKind::retry,
             stage.id, number, std::move(fields));
}

// Two submissions of one intent may both come through. The scheduler reports the job that holds the attempt, which
// need not be the one whose number a controller got: that one is nobody's, and this one the attempt's.
void adopt(Round& round, const LedgerStage& stage, const JobInfo& info) {
  const LedgerAttempt& attempt = *stage.newest();
  const bool lives = info.state == JobState::queued || info.state == JobState::running;
  if (!lives || info.id.empty() || info.id == attempt.job) return;
  Value fields = Value::make_table();
  fields.set("job", info.id);
  fields.set("instead_of", attempt.job);
  round.emit(FactKind::submitted, stage.id, attempt.number, std::move(fields));
}

// What we did not want may be what the scheduler has no answer to: the next one is asked for with it.
JobEnd end_of_refused(const LedgerAttempt& attempt) {
  if (attempt.exclude.empty()) return {FaultClass::not_started, attempt.refused, {}, -1, 0, 0};
  const std::string cause = format("refused without {}: {}", join(attempt.exclude, ", "), attempt.refused);
  return {FaultClass::launch_failed, cause, {}, -1, 0, 0};
}

// It may wait for what it excludes itself.
void look_at_exclusions(Round& round, LedgerStage& stage, const JobInfo& info) {
  const LedgerAttempt& attempt = *stage.newest();
  if (attempt.exclude.empty() || attempt.cancel_wanted || attempt.lift_wanted || !round.rules.can_exclude) return;
  const StageRules* rules = round.rules_of(stage);
  const WaitingJob waiting{attempt.exclude, info.reason, round.seen.now_ms - attempt.waits_since_ms};
  const auto lifted = lift_exclusions(waiting, round.suspects(), rules ? rules->hosts : HostNeed{}, round.seen.hosts);
  if (!lifted) return;
  Value fields = because(format("{} may be used all the same: {}", join(lifted->used_all_the_same, ", "), lifted->why));
  put_exclusions(*lifted, fields);
  round.emit(FactKind::lift_exclusions, stage.id, attempt.number, std::move(fields));
}

// Another job may start where this one may not.
void give_up_held(Round& round, LedgerStage& stage, const JobInfo& info, const std::string& cause) {
  Value fields = because(info.reason);
  fields.set("given_up", true);
  round.emit(FactKind::cancel_job, stage.id, stage.newest()->number, std::move(fields));
  ended_badly(round, stage, {FaultClass::launch_failed, cause, {}, -1, 0, 0});
}

void note_requeue(Round& round, LedgerStage& stage, const JobInfo& info) {
  Value fields = because("the scheduler queued the job again");
  fields.set("restarts", info.restarts);
  round.emit(FactKind::requeued, stage.id, stage.newest()->number, std::move(fields));
}

// A reason that does not pass by itself is said once, for as long as it stays the same.
void say_why_it_waits(Round& round, const LedgerStage& stage, const JobInfo& info) {
  const LedgerAttempt& attempt = *stage.newest();
  if (info.advice.empty() || attempt.held_up.cause == info.reason) return;
  Value fields = because(info.reason);
  fields.set("by", "queue");
  fields.set("advice", info.advice);
  round.emit(FactKind::held_up, stage.id, attempt.number, std::move(fields));
}

// Held for good unless somebody lets it go ("launch failed requeued held"): we do, a few times.
void look_at_queued(Round& round, LedgerStage& stage, const JobInfo& info) {
  const LedgerAttempt& attempt = *stage.newest();
  say_why_it_waits(round, stage, info);
  if (info.given_up && !attempt.cancel_wanted)
    return give_up_held(round, stage, info, "held by the scheduler for good: " + info.reason);
  if (!info.held) return look_at_exclusions(round, stage, info);
  if (attempt.cancel_wanted || attempt.release_wanted) return;
  if (stage.state == StageState::running)
    note_requeue(round, stage, info);  // seen at the end of its former life, it "ran"
  if (attempt.releases < releases_max)
    return round.emit(FactKind::release_job, stage.id, attempt.number, because(info.reason));
  give_up_held(round, stage, info, format("held by the scheduler {} times: {}", releases_max + 1, info.reason));
}

void note_start(Round& round, LedgerStage& stage, const JobInfo& info) {
  if (stage.state == StageState::submitted) {
    Value fields = Value::make_table();
    const JobTimes ours = times_by_our_clock({info.started_ms, 0}, stage.newest()->wanted_ms, round.seen.now_ms);
    fields.set("started_ms", static_cast<long long>(ours.started_ms));
    if (!info.nodes.empty()) fields.set("nodes", info.nodes);
    round.emit(FactKind::started, stage.id, stage.newest()->number, std::move(fields));
  }
  const StageRules* rules = round.rules_of(stage);
  if (rules && rules->chain && !stage.successor && !round.now.cancel_requested &&
      wants_successor(round, stage, *rules) && !budget_spent(round.now, round.plan, round.seen.now_ms))
    round.emit(FactKind::submit_next, stage.id, stage.next_number(),
               submission_intent(round, stage, stage.next_number()));
}

void look_at_job(Round& round, LedgerStage& stage) {
  const LedgerAttempt& attempt = *stage.newest();
  if (!attempt.refused.empty()) return ended_badly(round, stage, end_of_refused(attempt));
  if (attempt.job.empty()) return;  // an intent without outcome: acted upon again
  const auto job = round.seen.jobs.find(attempt.key);
  if (job == round.seen.jobs.end()) return;  // "not found" is not "failed"
  const JobInfo& info = job->second;
  adopt(round, stage, info);
  if (info.restarts > attempt.restarts) note_requeue(round, stage, info);
  if (info.state == JobState::queued) return look_at_queued(round, stage, info);
  if (info.state == JobState::running) return note_start(round, stage, info);
  if (info.state == JobState::ended && info.record && info.record->outcome == "succeeded") {
    const auto artifact = round.seen.artifacts.find(stage.id);
    const auto broken = round.seen.broken.find(stage.id);
    if (artifact != round.seen.artifacts.end()) {
      Value fields = ended_fields(round, attempt, info.record->started_ms, info.record->ended_ms);
      put_artifact(fields, artifact->second);
      return round.emit(FactKind::succeeded, stage.id, attempt.number, std::move(fields));
    }
    if (broken != round.seen.broken.end())
      ended_badly(round, stage,
                  {FaultClass::program, broken->second, {}, -1, info.record->started_ms, info.record->ended_ms});
    return;
  }
  if (const auto end = judge_end(info, round.planned_of(stage).kind != "command", attempt.cancel_wanted))
    ended_badly(round, stage, *end);
}

void look_at_successor(Round& round, LedgerStage& stage) {
  if (!stage.successor || !stage.successor->refused.empty()) return;
  if (!is_final(stage.state) && !round.now.cancel_requested) return;
  if (!stage.successor->cancel_wanted)
    round.emit(FactKind::cancel_job, stage.id, stage.successor->number, because("its stage has ended"));
}

}  // namespace

bool wants_successor(const Round& round, const LedgerStage& stage, const StageRules& rules) {
  if (room_left(round.rules, round.now, &rules) <= 0) return false;
  const PlannedStage& planned = round.planned_of(stage);
  const double ran_s = static_cast<double>(round.seen.now_ms - stage.started_ms) * 1e-3;
  if (!surely_longer_than_a_job(planned, rules.wall_s)) return ran_s > rules.wall_s * successor_share;
  double spent_s = rules.wall_s;
  for (std::size_t i = stage.attempts_before_reset; i < stage.attempts.size(); ++i)
    spent_s += static_cast<double>(stage.attempts[i].ran_ms) * 1e-3;
  return spent_s < planned.common.time_limit.value;
}

void look_at_jobs(Round& round) {
  for (LedgerStage& stage : round.now.stages)
    if (stage.job_open()) look_at_job(round, stage);
}

void look_at_successors(Round& round) {
  for (LedgerStage& stage : round.now.stages) look_at_successor(round, stage);
}

}  // namespace longhaul
