#include "orchestrator/controller/decide.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"
#include "orchestrator/controller/tell.h"
#include "resiliency/retry_policy.h"

namespace longhaul {
namespace {

// What a need means for the stage that has it.
enum class Need { open, met, broken };

Need state_of_need(const RunPlan& plan, const RunLedger& ledger, const std::string& id) {
  const LedgerStage* needed = ledger.find(id);
  if (!needed) return Need::broken;
  if (needed->has_artifact()) return Need::met;
  if (!is_final(needed->state)) return Need::open;
  const PlannedStage* planned = plan.find(id);
  const bool tolerated = needed->state == StageState::failed && planned && planned->common.on_failure == "continue";
  return tolerated ? Need::met : Need::broken;
}

bool has_source(const PlannedInput& input, const RunLedger& ledger) {
  if (input.stages.empty()) return true;
  return std::any_of(input.stages.begin(), input.stages.end(), [&](const std::string& id) {
    const LedgerStage* stage = ledger.find(id);
    return stage && stage->has_artifact();
  });
}

// One round of decisions over a copy of the ledger: each fact is folded at once, so later rules see earlier ones.
class Round {
 public:
  Round(const RunPlan& plan, const RunLedger& ledger, const Observations& seen, const std::string& run_name)
      : plan_(plan), seen_(seen), run_name_(run_name), now_(ledger) {}

  std::vector<Fact> run() {
    for (const RequestSeen& request : seen_.requests) answer(request);
    for (LedgerStage& stage : now_.stages)
      if (stage.job_open()) look_at_job(stage);
    look_at_orders();
    if (now_.cancel_requested) cancel_everything();
    skip_what_cannot_run();
    for (LedgerStage& stage : now_.stages) advance(stage);
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
    std::string answer;
    bool accepted = true;
    const bool jobs_open =
        std::any_of(now_.stages.begin(), now_.stages.end(), [](const LedgerStage& s) { return s.job_open(); });
    if (request.what == "cancel") {
      accepted = !now_.ended;
      answer = accepted ? "cancelling" : "the run has ended already";
    } else if (request.what == "resume") {
      accepted = !(now_.cancel_requested && jobs_open);
      answer = accepted ? "failed, cancelled and skipped stages are tried again"
                        : "its cancellation is still under way; ask again when it has ended";
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
    if (!accepted || request.what != "resume") return;
    for (LedgerStage& stage : now_.stages)
      if (stage.state == StageState::failed || stage.state == StageState::cancelled ||
          stage.state == StageState::skipped)
        emit(FactKind::reset, stage.id, 0, {});
  }

  static void put_order(Value& fields, const std::string& request, const TellAnswer& told) {
    Order order = told.order;
    order.id = ends_with(request, ".json") ? request.substr(0, request.size() - 5) : request;
    fields.set("stage", told.stage);
    fields.set("order", order_to_value(order));
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

  void look_at_job(LedgerStage& stage) {
    const LedgerAttempt& attempt = *stage.newest();
    if (!attempt.refused.empty()) return ended_badly(stage, FaultClass::not_started, attempt.refused, nullptr);
    if (attempt.job.empty()) return;  // an intent without outcome: acted upon again
    const auto job = seen_.jobs.find(attempt.key);
    if (job == seen_.jobs.end()) return;  // "not found" is not "failed"
    const JobInfo& info = job->second;
    switch (info.state) {
      case JobState::queued: return;
      case JobState::running: return note_start(stage, info.started_ms);
      case JobState::lost: return ended_badly(stage, FaultClass::lost, info.cause, nullptr);
      case JobState::ended: break;
    }
    const JobRecord& record = *info.record;
    const auto artifact = seen_.artifacts.find(stage.id);
    if (record.outcome == "succeeded" && artifact != seen_.artifacts.end()) {
      Value fields = times(record);
      put_artifact(fields, artifact->second);
      return emit(FactKind::succeeded, stage.id, attempt.number, std::move(fields));
    }
    if (record.outcome == "succeeded") {
      const auto broken = seen_.broken.find(stage.id);
      if (broken != seen_.broken.end()) ended_badly(stage, FaultClass::program, broken->second, &record);
      return;
    }
    const PlannedStage* planned = plan_.find(stage.id);
    ended_badly(stage, classify_end(record, planned && planned->kind != "command"), record.cause, &record);
  }

  void note_start(LedgerStage& stage, std::int64_t started_ms) {
    if (stage.state != StageState::submitted) return;
    Value fields = Value::make_table();
    fields.set("started_ms", static_cast<long long>(started_ms));
    emit(FactKind::started, stage.id, stage.newest()->number, std::move(fields));
  }

  static Value times(const JobRecord& record) {
    Value fields = Value::make_table();
    fields.set("started_ms", static_cast<long long>(record.started_ms));
    fields.set("ended_ms", static_cast<long long>(record.ended_ms));
    return fields;
  }
  static void put_artifact(Value& fields, const ArtifactSeen& artifact) {
    fields.set("artifact", artifact.folder);
    fields.set("digest", artifact.digest);
    fields.set("figures", artifact.figures);
  }

  void ended_badly(LedgerStage& stage, FaultClass fault, const std::string& cause, const JobRecord* record) {
    const int number = stage.newest()->number;
    Value fields = record ? times(*record) : Value::make_table();
    fields.set("cause", cause);
    if (now_.cancel_requested) {
      if (fault == FaultClass::interrupted) fields.set("cause", "cancelled on request");
      return emit(FactKind::cancelled, stage.id, number, std::move(fields));
    }
    std::vector<PastEnd> ends;
    for (std::size_t i = stage.attempts_before_reset; i + 1 < stage.attempts.size(); ++i)
      ends.push_back({fault_of(stage.attempts[i].fault), stage.attempts[i].cause, false});
    ends.push_back({fault, cause, false});
    const PlannedStage* planned = plan_.find(stage.id);
    const RetryVerdict verdict = decide_retry(ends, planned ? planned->common.retries : 0);
    fields.set("fault", to_string(fault));
    fields.set("reason", verdict.reason);
    emit(verdict.again ? FactKind::retry : FactKind::failed, stage.id, number, std::move(fields));
  }

  static FaultClass fault_of(const std::string& text) {
    for (int i = 0; i <= static_cast<int>(FaultClass::cancelled); ++i)
      if (text == to_string(static_cast<FaultClass>(i))) return static_cast<FaultClass>(i);
    return FaultClass::program;
  }

  void cancel_everything() {
    for (LedgerStage& stage : now_.stages) {
      if (stage.state == StageState::waiting || stage.state == StageState::ready)
        emit(FactKind::cancelled, stage.id, 0, because("cancelled on request before it was submitted"));
      else if (stage.job_open() && !stage.newest()->cancel_wanted)
        emit(FactKind::cancel_job, stage.id, stage.newest()->number, {});
    }
  }

  void skip_what_cannot_run() {
    const LedgerStage* stopper = nullptr;
    for (const LedgerStage& stage : now_.stages) {
      const PlannedStage* planned = plan_.find(stage.id);
      if (stage.state == StageState::failed && planned && planned->common.on_failure == "stop") stopper = &stage;
    }
    for (const PlannedStage& planned : plan_.stages) {  // in plan order: a skipped need is seen by what comes after
      LedgerStage* stage = now_.find(planned.id());
      if (!stage || (stage->state != StageState::waiting && stage->state != StageState::ready)) continue;
      if (stopper) {
        emit(FactKind::skipped, stage->id, 0,
             because(format("stage {} failed and stops the run (on_failure = stop)", stopper->id)));
        continue;
      }
      const std::string blocker = blocked_by(planned);
      if (!blocker.empty()) emit(FactKind::skipped, stage->id, 0, because(blocker));
    }
  }

  // Why a stage can never run, "" if it still may.
  std::string blocked_by(const PlannedStage& planned) const {
    bool open = false;
    for (const std::string& id : planned.needs) {
      const Need need = state_of_need(plan_, now_, id);
      if (need == Need::broken) {
        const LedgerStage* needed = now_.find(id);
        return format("it needs {}, which is {}", id, needed ? to_string(needed->state) : "not in the plan");
      }
      open = open || need == Need::open;
    }
    if (open) return {};
    for (const PlannedInput& input : planned.inputs)
      if (!has_source(input, now_))
        return format("its input {} has no artifact: {} failed", input.name, join(input.stages, ", "));
    return {};
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
      emit(FactKind::ready, stage.id, 0, std::move(fields));
      if (prepared.cached) {
        Value artifact = Value::make_table();
        put_artifact(artifact, *prepared.cached);
        return emit(FactKind::cached, stage.id, 0, std::move(artifact));
      }
    }
    if (stage.state != StageState::ready) return;
    const int number = static_cast<int>(stage.attempts.size()) + 1;
    Value fields = Value::make_table();
    fields.set("key", submission_key(run_name_, stage.id, number));
    emit(FactKind::submit, stage.id, number, std::move(fields));
  }

  void end_run() {
    RunState state = RunState::succeeded;
    for (const LedgerStage& stage : now_.stages) {
      const PlannedStage* planned = plan_.find(stage.id);
      const bool tolerated = planned && planned->common.on_failure == "continue";
      if (stage.state == StageState::failed && !tolerated && state == RunState::succeeded) state = RunState::failed;
      if (stage.state == StageState::cancelled) state = RunState::cancelled;
    }
    Value fields = Value::make_table();
    fields.set("state", to_string(state));
    emit(FactKind::run_ended, {}, 0, std::move(fields));
  }

  const RunPlan& plan_;
  const Observations& seen_;
  const std::string& run_name_;
  RunLedger now_;
  std::vector<Fact> facts_;
};

}  // namespace

std::vector<Fact> decide(const RunPlan& plan, const RunLedger& ledger, const Observations& seen,
                         const std::string& run_name) {
  return Round(plan, ledger, seen, run_name).run();
}

std::vector<const PlannedStage*> wants_preparation(const RunPlan& plan, const RunLedger& ledger) {
  std::vector<const PlannedStage*> wanted;
  if (ledger.cancel_requested) return wanted;
  for (const PlannedStage& planned : plan.stages) {
    const LedgerStage* stage = ledger.find(planned.id());
    if (!stage || stage->state != StageState::waiting) continue;
    const bool needs_met = std::all_of(planned.needs.begin(), planned.needs.end(), [&](const std::string& id) {
      return state_of_need(plan, ledger, id) == Need::met;
    });
    const bool sources = std::all_of(planned.inputs.begin(), planned.inputs.end(),
                                     [&](const PlannedInput& input) { return has_source(input, ledger); });
    if (needs_met && sources) wanted.push_back(&planned);
  }
  return wanted;
}

Result<std::string> choose_source(const PlannedInput& input, const RunLedger& ledger) {
  std::vector<const LedgerStage*> there;
  for (const std::string& id : input.stages)
    if (const LedgerStage* stage = ledger.find(id); stage && stage->has_artifact()) there.push_back(stage);
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

PendingActs pending_acts(const RunLedger& ledger) {
  PendingActs acts;
  for (const LedgerStage& stage : ledger.stages) {
    if (!stage.job_open()) continue;
    const LedgerAttempt& attempt = *stage.newest();
    if (attempt.job.empty() && attempt.refused.empty()) acts.submit.push_back(&stage);
    if (attempt.cancel_wanted && !attempt.cancel_sent && attempt.refused.empty()) acts.cancel.push_back(&stage);
  }
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
