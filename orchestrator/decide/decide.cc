#include "orchestrator/decide/decide.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/decide/job_end.h"
#include "orchestrator/decide/job_room.h"
#include "orchestrator/decide/needs.h"
#include "orchestrator/decide/tell.h"
#include "orchestrator/state/budget.h"
#include "resiliency/retry_policy.h"

namespace longhaul {
namespace {

constexpr int releases_max = 3;                // of a job that the scheduler holds
constexpr double maintenance_margin_s = 300;   // a shortened job ends this long before
constexpr double shortened_wall_min_s = 1800;  // shorter ones are not worth their start

// One round of decisions over a copy of the ledger: each fact is folded at once, so later rules see earlier ones.
class Round {
 public:
  Round(const RunPlan& plan, const SchedulingRules& rules, const RunLedger& ledger, const Observations& seen,
        const std::string& run_name)
      : plan_(plan), rules_(rules), seen_(seen), run_name_(run_name), now_(ledger) {}

  std::vector<Fact> run() {
    for (const RequestSeen& request : seen_.requests) answer(request);
    for (LedgerStage& stage : now_.stages)
      if (stage.job_open()) look_at_job(stage);
    if (resumed_) try_again();
    look_at_notices();
    look_at_orders();
    look_at_milestones();
    if (now_.cancel_requested) cancel_everything();
    for (LedgerStage& stage : now_.stages) look_at_successor(stage);
    skip_what_cannot_run();
    for (LedgerStage& stage : now_.stages) advance(stage);
    submit_what_is_ready();
    if (!now_.ended && now_.all_final()) end_run();
    return std::move(facts_);
  }

 private:
  void emit(FactKind kind, const std::string& stage, int attempt, Value fields) {
    facts_.push_back({kind, stage, attempt, std::move(fields), 0});
    now_.apply(facts_.back());
  }
  static Value because(const std::string& cause) {
    Value fields = Value::make_table();
    fields.set("cause", cause);
    return fields;
  }

  void answer(const RequestSeen& request) {
    if (now_.answered(request.id)) return;
    Value fields = Value::make_table();
    fields.set("id", request.id);
    fields.set("what", request.what);
    if (request.uid >= 0) fields.set("uid", static_cast<long long>(request.uid));
    std::string answer;
    bool accepted = true;
    // What is still to be cancelled: all jobs, or the next one of a chain that has ended.
    const bool cancelling = std::any_of(now_.stages.begin(), now_.stages.end(), [&](const LedgerStage& s) {
      return (now_.cancel_requested && s.job_open()) || (is_final(s.state) && s.successor_open());
    });
    if (request.what == "cancel") {
      accepted = !now_.ended;
      answer = accepted ? "cancelling" : "the run has ended already";
    } else if (request.what == "resume") {
      accepted = !cancelling;
      answer = accepted ? "failed, cancelled and skipped stages are tried again"
                        : "jobs are still being cancelled; ask again when they have ended";
    } else if (request.what == "tell") {
      const TellAnswer told = answer_tell(plan_, now_, request.arguments);
      accepted = told.accepted;
      answer = told.answer;
      if (accepted) put_order(fields, request.id, told);
    } else {
      accepted = false;
      answer = "not a request that this version knows";
    }
    fields.set("accepted", accepted);
    fields.set("answer", answer);
    emit(FactKind::request, {}, 0, std::move(fields));
    resumed_ = resumed_ || (accepted && request.what == "resume");
  }

  // Also what had failed before the user asked and is only seen now: whoever drove the run may have died without
  // knowing. Not what has a next job that is still to be cancelled: two would work in one folder.
  void try_again() {
    for (LedgerStage& stage : now_.stages) {
      const bool ended_badly = stage.state == StageState::failed || stage.state == StageState::cancelled ||
                               stage.state == StageState::skipped;
      if (ended_badly && !stage.successor_open()) emit(FactKind::reset, stage.id, 0, {});
    }
  }

  static void put_order(Value& fields, const std::string& request, const TellAnswer& told) {
    Order order = told.order;
    order.id = ends_with(request, ".json") ? request.substr(0, request.size() - 5) : request;
    fields.set("stage", told.stage);
    fields.set("order", order_to_value(order));
  }

  void look_at_notices() {
    for (const SchedulerNotice& notice : seen_.notices) {
      if (now_.noticed(notice.id)) continue;
      Value fields = Value::make_table();
      fields.set("id", notice.id);
      fields.set("text", notice.text);
      emit(FactKind::noticed, {}, 0, std::move(fields));
    }
  }

  // An order ends when its lead says so, or with its stage.
  void look_at_orders() {
    for (std::size_t i = 0; i < now_.orders.size(); ++i) {
      const LedgerOrder order = now_.orders[i];
      if (!order.outcome.empty()) continue;
      const auto seen = seen_.orders.find(order.order.id);
      const LedgerStage* stage = now_.find(order.stage);
      if (seen == seen_.orders.end() && stage && !is_final(stage->state)) continue;
      Value fields = Value::make_table();
      fields.set("id", order.order.id);
      fields.set("done", seen != seen_.orders.end() && seen->second.done);
      fields.set("text", seen != seen_.orders.end() ? seen->second.text : "the stage ended before it could be done");
      emit(FactKind::order_ended, order.stage, 0, std::move(fields));
    }
  }

  void look_at_milestones() {
    for (const auto& [id, steps] : seen_.milestones) {
      const LedgerStage* stage = now_.find(id);
      for (const auto& [step, artifact] : steps) {
        if (!stage || stage->key.empty() || stage->milestones.contains(step)) continue;
        Value fields = Value::make_table();
        fields.set("step", static_cast<long long>(step));
        put_artifact(fields, artifact);
        emit(FactKind::milestone, id, 0, std::move(fields));
      }
    }
  }

  void look_at_job(LedgerStage& stage) {
    const LedgerAttempt& attempt = *stage.newest();
    if (!attempt.refused.empty()) return ended_badly(stage, end_of_refused(attempt));
    if (attempt.job.empty()) return;  // an intent without outcome: acted upon again
    const auto job = seen_.jobs.find(attempt.key);
    if (job == seen_.jobs.end()) return;  // "not found" is not "failed"
    const JobInfo& info = job->second;
    adopt(stage, info);
    if (info.restarts > attempt.restarts) note_requeue(stage, info);
    if (info.state == JobState::queued) return look_at_queued(stage, info);
    if (info.state == JobState::running) return note_start(stage, info);
    if (info.state == JobState::ended && info.record && info.record->outcome == "succeeded") {
      const auto artifact = seen_.artifacts.find(stage.id);
      const auto broken = seen_.broken.find(stage.id);
      if (artifact != seen_.artifacts.end()) {
        Value fields = times(attempt, info.record->started_ms, info.record->ended_ms);
        put_artifact(fields, artifact->second);
        return emit(FactKind::succeeded, stage.id, attempt.number, std::move(fields));
      }
      if (broken != seen_.broken.end())
        ended_badly(stage,
                    {FaultClass::program, broken->second, {}, -1, info.record->started_ms, info.record->ended_ms});
      return;
    }
    if (const auto end = judge_end(info, planned_of(stage).kind != "command", attempt.cancel_wanted))
      ended_badly(stage, *end);
  }

  // Two submissions of one intent may both come through. The scheduler tells of the job that holds the attempt, which
  // need not be the one whose number a controller got: that one is nobody's, and this one the attempt's.
  void adopt(const LedgerStage& stage, const JobInfo& info) {
    const LedgerAttempt& attempt = *stage.newest();
    const bool lives = info.state == JobState::queued || info.state == JobState::running;
    if (!lives || info.id.empty() || info.id == attempt.job) return;
    Value fields = Value::make_table();
    fields.set("job", info.id);
    fields.set("instead_of", attempt.job);
    emit(FactKind::submitted, stage.id, attempt.number, std::move(fields));
  }

  // What we did not want may be what the scheduler has no answer to: the next one is asked for with it.
  static JobEnd end_of_refused(const LedgerAttempt& attempt) {
    if (attempt.exclude.empty()) return {FaultClass::not_started, attempt.refused, {}, -1, 0, 0};
    const std::string cause = format("refused without {}: {}", join(attempt.exclude, ", "), attempt.refused);
    return {FaultClass::launch_failed, cause, {}, -1, 0, 0};
  }

  // It may wait for what it excludes itself.
  void look_at_exclusions(LedgerStage& stage, const JobInfo& info) {
    const LedgerAttempt& attempt = *stage.newest();
    if (attempt.exclude.empty() || attempt.cancel_wanted || attempt.lift_wanted || !rules_.can_exclude) return;
    const StageRules* rules = rules_of(stage);
    const WaitingJob waiting{attempt.exclude, info.reason, seen_.now_ms - attempt.waits_since_ms};
    const auto lifted = lift_exclusions(waiting, suspects(), rules ? rules->hosts : HostNeed{}, seen_.hosts);
    if (!lifted) return;
    Value fields =
        because(format("{} may be used all the same: {}", join(lifted->used_all_the_same, ", "), lifted->why));
    put_exclusions(*lifted, fields);
    emit(FactKind::lift_exclusions, stage.id, attempt.number, std::move(fields));
  }

  // Held for good unless somebody lets it go ("launch failed requeued held"): we do, a few times.
  void look_at_queued(LedgerStage& stage, const JobInfo& info) {
    const LedgerAttempt& attempt = *stage.newest();
    say_why_it_waits(stage, info);
    if (info.given_up && !attempt.cancel_wanted)
      return give_up_held(stage, info, "held by the scheduler for good: " + info.reason);
    if (!info.held) return look_at_exclusions(stage, info);
    if (attempt.cancel_wanted || attempt.release_wanted) return;
    if (stage.state == StageState::running) note_requeue(stage, info);  // seen at the end of its former life, it "ran"
    if (attempt.releases < releases_max)
      return emit(FactKind::release_job, stage.id, attempt.number, because(info.reason));
    give_up_held(stage, info, format("held by the scheduler {} times: {}", releases_max + 1, info.reason));
  }

  // Another job may start where this one may not.
  void give_up_held(LedgerStage& stage, const JobInfo& info, const std::string& cause) {
    Value fields = because(info.reason);
    fields.set("given_up", true);
    emit(FactKind::cancel_job, stage.id, stage.newest()->number, std::move(fields));
    ended_badly(stage, {FaultClass::launch_failed, cause, {}, -1, 0, 0});
  }

  // A reason that does not pass by itself is said once, for as long as it stays the same.
  void say_why_it_waits(const LedgerStage& stage, const JobInfo& info) {
    const LedgerAttempt& attempt = *stage.newest();
    if (info.advice.empty() || attempt.held_up.cause == info.reason) return;
    Value fields = because(info.reason);
    fields.set("by", "queue");
    fields.set("advice", info.advice);
    emit(FactKind::held_up, stage.id, attempt.number, std::move(fields));
  }

  void note_requeue(LedgerStage& stage, const JobInfo& info) {
    Value fields = because("the scheduler queued the job again");
    fields.set("restarts", info.restarts);
    emit(FactKind::requeued, stage.id, stage.newest()->number, std::move(fields));
  }

  void note_start(LedgerStage& stage, const JobInfo& info) {
    if (stage.state == StageState::submitted) {
      Value fields = Value::make_table();
      const JobTimes ours = times_by_our_clock({info.started_ms, 0}, stage.newest()->wanted_ms, seen_.now_ms);
      fields.set("started_ms", static_cast<long long>(ours.started_ms));
      if (!info.nodes.empty()) fields.set("nodes", info.nodes);
      emit(FactKind::started, stage.id, stage.newest()->number, std::move(fields));
    }
    const StageRules* rules = rules_of(stage);
    if (rules && rules->chain && !stage.successor && !now_.cancel_requested && wants_successor(stage, *rules) &&
        !budget_spent(now_, plan_, seen_.now_ms))
      emit(FactKind::submit_next, stage.id, stage.next_number(), intent(stage, stage.next_number()));
  }

  // Whether there will be something to do after the job that runs now.
  bool wants_successor(const LedgerStage& stage, const StageRules& rules) const {
    if (room_left(rules_, now_, &rules) <= 0) return false;
    const PlannedStage& planned = planned_of(stage);
    const double ran_s = static_cast<double>(seen_.now_ms - stage.started_ms) * 1e-3;
    if (!surely_longer_than_a_job(planned, rules.wall_s)) return ran_s > rules.wall_s * successor_share;
    double spent_s = rules.wall_s;
    for (std::size_t i = stage.attempts_before_reset; i < stage.attempts.size(); ++i)
      spent_s += static_cast<double>(stage.attempts[i].ran_ms) * 1e-3;
    return spent_s < planned.common.time_limit.value;
  }

  // A successor outlives its stage only until it is cancelled; one whose submission has no answer is looked for.
  void look_at_successor(LedgerStage& stage) {
    if (!stage.successor || !stage.successor->refused.empty()) return;
    if (!is_final(stage.state) && !now_.cancel_requested) return;
    if (!stage.successor->cancel_wanted)
      emit(FactKind::cancel_job, stage.id, stage.successor->number, because("its stage has ended"));
  }

  Value times(const LedgerAttempt& attempt, std::int64_t started_ms, std::int64_t ended_ms) const {
    const JobTimes ours = times_by_our_clock({started_ms, ended_ms}, attempt.wanted_ms, seen_.now_ms);
    Value fields = Value::make_table();
    if (ours.started_ms > 0) fields.set("started_ms", static_cast<long long>(ours.started_ms));
    if (ours.ended_ms > 0) fields.set("ended_ms", static_cast<long long>(ours.ended_ms));
    return fields;
  }
  static void put_artifact(Value& fields, const ArtifactSeen& artifact) {
    fields.set("artifact", artifact.folder);
    fields.set("digest", artifact.digest);
    fields.set("figures", artifact.figures);
    if (artifact.uid >= 0) fields.set("owner_uid", static_cast<long long>(artifact.uid));
  }

  void ended_badly(LedgerStage& stage, const JobEnd& end) {
    const int number = stage.newest()->number;
    // Of a job that left no record, now is when it is known: what its node is suspected of has to begin some time.
    Value fields = times(*stage.newest(), end.started_ms, end.ended_ms > 0 ? end.ended_ms : seen_.now_ms);
    fields.set("cause", end.cause);
    if (now_.cancel_requested) {
      if (end.fault == FaultClass::interrupted || end.fault == FaultClass::cancelled)
        fields.set("cause", "cancelled on request");
      return emit(FactKind::cancelled, stage.id, number, std::move(fields));
    }
    std::vector<PastEnd> ends;
    for (std::size_t i = stage.attempts_before_reset; i + 1 < stage.attempts.size(); ++i) {
      const LedgerAttempt& past = stage.attempts[i];
      ends.push_back({fault_class_of(past.fault), past.cause, past.made_progress, past.node});
    }
    const SavedState before = stage.saved_so_far();
    const auto looked = seen_.saved.find(stage.id);
    SavedState saved = looked != seen_.saved.end() ? looked->second : SavedState{no_saved_step, before.contents};
    saved.reached = end.step;
    const bool progress = made_progress(saved, before);
    if (saved.step > no_saved_step) fields.set("saved_step", static_cast<long long>(saved.step));
    if (!saved.contents.empty()) fields.set("saved", saved.contents);
    ends.push_back({end.fault, end.cause, progress, end.node});
    const RetryVerdict verdict = decide_retry(ends, budgets_of(stage));
    fields.set("fault", to_string(end.fault));
    fields.set("reason", verdict.reason);
    fields.set("progress", progress);
    if (end.step >= 0) fields.set("step", static_cast<long long>(end.step));
    if (!end.node.empty()) fields.set("node", end.node);
    ValueArray left(end.nodes_left.begin(), end.nodes_left.end());
    if (!left.empty()) fields.set("nodes_left", Value(std::move(left)));
    const bool successor = stage.successor && stage.successor->refused.empty() && !stage.successor->cancel_wanted;
    emit(!verdict.again ? FactKind::failed
         : successor    ? FactKind::go_on
                        : FactKind::retry,
         stage.id, number, std::move(fields));
  }

  RetryBudgets budgets_of(const LedgerStage& stage) const {
    const StageCommon& common = planned_of(stage).common;
    const StageRules* rules = rules_of(stage);
    RetryBudgets budgets;
    budgets.application = common.retries;
    budgets.infrastructure = common.infrastructure_retries;
    budgets.resumable = rules ? rules->resumable : is_resumable(planned_of(stage).kind, common.job);
    budgets.can_exclude = rules_.can_exclude;
    return budgets;
  }

  void cancel_everything() {
    for (LedgerStage& stage : now_.stages) {
      if (stage.state == StageState::waiting || stage.state == StageState::ready)
        emit(FactKind::cancelled, stage.id, 0, because("cancelled on request before it was submitted"));
      else if (stage.job_open() && stage.newest()->refused.empty() && !stage.newest()->cancel_wanted)
        emit(FactKind::cancel_job, stage.id, stage.newest()->number, {});
    }
  }

  // It does not run any more. A stage whose jobs have ended badly has failed with the cause of the last one, whatever
  // became of the stages beside it; only what never ran is skipped.
  void give_up(const LedgerStage& stage, const std::string& why) {
    const LedgerAttempt* last = stage.attempts.size() > stage.attempts_before_reset ? stage.newest() : nullptr;
    if (!last || last->cause.empty() || stage.started_ms == 0)
      return emit(FactKind::skipped, stage.id, 0, because(why));
    Value fields = because(last->cause + "; not tried again: " + why);
    fields.set("fault", last->fault);
    fields.set("started_ms", static_cast<long long>(last->ended_ms - last->ran_ms));
    fields.set("ended_ms", static_cast<long long>(last->ended_ms));
    emit(FactKind::failed, stage.id, 0, std::move(fields));
  }

  void skip_what_cannot_run() {
    const LedgerStage* stopper = nullptr;
    for (const LedgerStage& stage : now_.stages)
      if (stage.state == StageState::failed && planned_of(stage).common.on_failure == "stop") stopper = &stage;
    const bool spent = budget_spent(now_, plan_, seen_.now_ms);
    for (LedgerStage& stage : now_.stages) {  // in plan order: a skipped need is seen by what comes after
      if (stage.state != StageState::waiting && stage.state != StageState::ready) continue;
      const PlannedStage& planned = planned_of(stage);
      if (spent) {
        give_up(stage, format("the run's budget of {:g} node-hours is used up", plan_.budget_node_hours));
        continue;
      }
      if (stopper && !runs_after_failure(planned, now_)) {
        give_up(stage, format("stage {} failed and stops the run (on_failure = stop)", stopper->id));
        continue;
      }
      const std::string blocker = blocked_by(plan_, now_, planned, seen_);
      if (!blocker.empty()) give_up(stage, blocker);
    }
  }

  void advance(LedgerStage& stage) {
    if (stage.state == StageState::waiting) {
      const auto found = seen_.prepared.find(stage.id);
      if (found == seen_.prepared.end()) return;
      const PreparedStage& prepared = found->second;
      if (!prepared.problem.empty()) {
        Value fields = because(prepared.problem);
        fields.set("fault", to_string(FaultClass::bad_input));
        return emit(FactKind::failed, stage.id, 0, std::move(fields));
      }
      Value fields = Value::make_table();
      fields.set("key", prepared.key);
      fields.set("inputs", inputs_to_value(prepared.inputs));
      if (!prepared.found.is_null()) fields.set("layout", prepared.found);
      if (!prepared.why.empty()) fields.set("why", prepared.why);
      emit(FactKind::ready, stage.id, 0, std::move(fields));
      if (!prepared.cached) return;
      Value artifact = Value::make_table();
      put_artifact(artifact, *prepared.cached);
      emit(FactKind::cached, stage.id, 0, std::move(artifact));
    }
  }

  // Ready stages in plan order, variants of one stage together as the tasks of an array where the site has them.
  void submit_what_is_ready() {
    int room = room_left(rules_, now_, nullptr);
    std::map<std::string, int> room_of_class;
    for (std::size_t i = 0; i < now_.stages.size() && room > 0; ++i) {
      if (now_.stages[i].state != StageState::ready) continue;
      const StageRules* rules = rules_of(now_.stages[i]);
      int* left = nullptr;
      if (rules && rules->class_submitted_max > 0)
        left = &room_of_class.try_emplace(rules->job_class, class_room_left(rules_, now_, *rules)).first->second;
      if (left && *left <= 0) continue;  // a stage of another class may still go
      std::vector<LedgerStage*> group = {&now_.stages[i]};
      const int number = group.front()->next_number();
      if (rules_.array_tasks_max > 1 && !plan_.stages[i].variant.empty())
        gather_array(i, std::min({room, rules_.array_tasks_max, left ? *left : room}), group);
      room -= static_cast<int>(group.size());
      if (left) *left -= static_cast<int>(group.size());
      if (group.size() == 1) {
        emit(FactKind::submit, group.front()->id, number, intent(*group.front(), number));
        continue;
      }
      std::string ids;
      for (const LedgerStage* stage : group) ids += stage->id + "\n";
      const std::string array = submission_key(run_name_, ids, number);
      for (std::size_t task = 0; task < group.size(); ++task) {
        Value fields = intent(*group[task], number);
        fields.set("key", array_task_key(array, static_cast<int>(task)));
        fields.set("array", array);
        fields.set("task", task);
        emit(FactKind::submit, group[task]->id, number, std::move(fields));
      }
    }
  }

  // Variants of the same stage that are ready, ask for the same and were not tried since the user last asked (a further
  // try goes alone, with its own exclusions).
  void gather_array(std::size_t first, int tasks_max, std::vector<LedgerStage*>& group) {
    const auto untried = [](const LedgerStage& stage) { return stage.attempts.size() == stage.attempts_before_reset; };
    LedgerStage& leader = now_.stages[first];
    for (std::size_t i = first + 1; untried(leader) && i < now_.stages.size(); ++i) {
      LedgerStage& stage = now_.stages[i];
      if (static_cast<int>(group.size()) >= tasks_max) return;
      if (stage.state == StageState::ready && plan_.stages[i].stage == plan_.stages[first].stage && untried(stage) &&
          stage.next_number() == leader.next_number() && rules_.stages[i].shape == rules_.stages[first].shape)
        group.push_back(&stage);
    }
  }

  // What a submission is to be, beyond what the plan says: decided once, so that doing it again is the same.
  Value intent(const LedgerStage& stage, int number) {
    Value fields = Value::make_table();
    fields.set("key", submission_key(run_name_, stage.id, number));
    if (stage.job_open()) fields.set("after", stage.newest()->number);
    const StageRules* rules = rules_of(stage);
    if (rules_.can_exclude && !suspects().empty())
      put_exclusions(exclusions_for(stage, suspects(), rules ? rules->hosts : HostNeed{}, seen_.hosts), fields);
    if (rules && rules->resumable && rules->wall_s > 0 && rules_.maintenance_ms > 0) {
      const double left_s = static_cast<double>(rules_.maintenance_ms - seen_.now_ms) * 1e-3 - maintenance_margin_s;
      if (left_s >= shortened_wall_min_s && left_s < rules->wall_s) fields.set("wall_s", std::floor(left_s / 60) * 60);
    }
    return fields;
  }

  const std::vector<NodeSuspicion>& suspects() {
    if (!suspects_) suspects_ = suspects_of(now_, seen_.now_ms, rules_.suspicion_ms);
    return *suspects_;
  }

  void end_run() {
    RunState state = RunState::succeeded;
    for (const LedgerStage& stage : now_.stages) {
      const bool tolerated = planned_of(stage).common.on_failure == "continue";
      if (stage.state == StageState::failed && !tolerated && state == RunState::succeeded) state = RunState::failed;
      if (stage.state == StageState::cancelled) state = RunState::cancelled;
      if (stage.state == StageState::skipped && state == RunState::succeeded &&
          (budget_spent(now_, plan_, seen_.now_ms) || lacks_milestone(planned_of(stage), now_)))
        state = RunState::failed;
    }
    Value fields = Value::make_table();
    fields.set("state", to_string(state));
    emit(FactKind::run_ended, {}, 0, std::move(fields));
  }

  // The ledger's stages stand in plan order.
  std::size_t position(const LedgerStage& stage) const { return static_cast<std::size_t>(&stage - now_.stages.data()); }
  const PlannedStage& planned_of(const LedgerStage& stage) const { return plan_.stages[position(stage)]; }
  const StageRules* rules_of(const LedgerStage& stage) const {
    return rules_.stages.empty() ? nullptr : &rules_.stages[position(stage)];
  }

  const RunPlan& plan_;
  const SchedulingRules& rules_;
  const Observations& seen_;
  const std::string& run_name_;
  RunLedger now_;
  std::optional<std::vector<NodeSuspicion>> suspects_;
  bool resumed_ = false;  // in this round
  std::vector<Fact> facts_;
};

}  // namespace

bool surely_longer_than_a_job(const PlannedStage& planned, double wall_s) {
  return planned.common.time_limit.value > wall_s && wall_s > 0;
}

std::vector<Fact> decide(const RunPlan& plan, const SchedulingRules& rules, const RunLedger& ledger,
                         const Observations& seen, const std::string& run_name) {
  LH_ASSERT(plan.stages.size() == ledger.stages.size(), "run=" + run_name);
  LH_ASSERT(rules.stages.empty() || rules.stages.size() == plan.stages.size(), "run=" + run_name);
  return Round(plan, rules, ledger, seen, run_name).run();
}

std::vector<const PlannedStage*> wants_preparation(const RunPlan& plan, const RunLedger& ledger) {
  std::vector<const PlannedStage*> wanted;
  if (ledger.cancel_requested) return wanted;
  for (const PlannedStage& planned : plan.stages) {
    const LedgerStage* stage = ledger.find(planned.id());
    if (!stage || stage->state != StageState::waiting) continue;
    const bool needs_met = std::all_of(planned.needs.begin(), planned.needs.end(), [&](const std::string& id) {
      return state_of_need(plan, ledger, planned, id) == Need::met;
    });
    const bool sources = std::all_of(planned.inputs.begin(), planned.inputs.end(),
                                     [&](const PlannedInput& input) { return has_source(input, ledger); });
    if (needs_met && sources) wanted.push_back(&planned);
  }
  return wanted;
}

Result<std::string> choose_source(const PlannedInput& input, const RunLedger& ledger) {
  if (input.milestone > 0 && has_source(input, ledger)) return input.stages.front();
  std::vector<const LedgerStage*> there;
  for (const std::string& id : input.stages)
    if (const LedgerStage* stage = ledger.find(id); input.milestone == 0 && stage && stage->has_artifact())
      there.push_back(stage);
  if (there.empty())
    return make_error(ErrorCode::not_found,
                      format("input {}: none of {} has an artifact", input.name, join(input.stages, ", ")));
  if (input.stages.size() == 1 || input.best_metric.empty()) return there.front()->id;
  const LedgerStage* best = nullptr;
  double best_figure = 0;
  for (const LedgerStage* stage : there) {
    const Value* figure = stage->figures.find(input.best_metric);
    if (!figure || !figure->is_number() || std::isnan(figure->as_number())) continue;
    const double value = figure->as_number();
    if (best && (input.best_is_max ? value <= best_figure : value >= best_figure)) continue;
    best = stage;
    best_figure = value;
  }
  if (!best)
    return make_error(ErrorCode::invalid_input,
                      format("input {}: no variant of it has a figure named {}", input.name, input.best_metric),
                      "best = { metric = ... } must name a figure that the stage reports");
  return best->id;
}

const std::string& submission_of(const PendingAct& act) {
  return act.attempt->array.empty() ? act.attempt->key : act.attempt->array;
}

PendingActs pending_acts(const RunLedger& ledger) {
  PendingActs acts;
  const auto look = [&](const LedgerStage& stage, const LedgerAttempt& attempt, bool may_start) {
    if (may_start && !attempt.answered() && !attempt.cancel_sent) acts.submit.push_back({&stage, &attempt});
    if (attempt.cancel_wanted && !attempt.cancel_sent && attempt.refused.empty())
      acts.cancel.push_back({&stage, &attempt});
    if (attempt.release_wanted && !attempt.cancel_wanted) acts.release.push_back({&stage, &attempt});
    if (attempt.lift_wanted && !attempt.cancel_wanted) acts.lift.push_back({&stage, &attempt});
  };
  for (const LedgerStage& stage : ledger.stages) {
    for (const LedgerAttempt& attempt : stage.attempts)
      look(stage, attempt, stage.job_open() && &attempt == stage.newest());
    if (stage.successor)
      look(stage, *stage.successor, stage.state == StageState::running || stage.successor->cancel_wanted);
  }
  std::stable_sort(acts.submit.begin(), acts.submit.end(), [](const PendingAct& a, const PendingAct& b) {
    return a.attempt->array < b.attempt->array;  // jobs of their own first, then array by array
  });
  return acts;
}

std::string submission_key(const std::string& run_name, const std::string& stage, int attempt) {
  std::string readable;
  for (const char c : stage.substr(0, 40))
    readable += std::isalnum(static_cast<unsigned char>(c)) || c == '-' ? c : '_';
  return format("{}.{}.{}", readable, attempt,
                xxh3_128_hex(run_name + "\n" + stage + "\n" + std::to_string(attempt)).substr(0, 20));
}

}  // namespace longhaul
