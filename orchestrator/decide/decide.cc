#include "orchestrator/decide/decide.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "orchestrator/decide/needs.h"
#include "orchestrator/decide/round.h"

namespace longhaul {

bool surely_longer_than_a_job(const PlannedStage& planned, double wall_s) {
  return planned.common.time_limit.value > wall_s && wall_s > 0;
}

std::vector<Fact> decide(const RunPlan& plan, const SchedulingRules& rules, const RunLedger& ledger,
                         const Observations& seen, const std::string& run_name) {
  LH_ASSERT(plan.stages.size() == ledger.stages.size(), "run=" + run_name);
  LH_ASSERT(rules.stages.empty() || rules.stages.size() == plan.stages.size(), "run=" + run_name);
  Round round{plan, rules, seen, run_name, ledger};
  const bool resumed = answer_requests(round);
  look_at_jobs(round);
  if (resumed) try_again(round);
  look_at_notices(round);
  look_at_orders(round);
  look_at_milestones(round);
  if (round.now.cancel_requested) cancel_everything(round);
  look_at_successors(round);
  skip_what_cannot_run(round);
  advance_stages(round);
  submit_what_is_ready(round);
  if (!round.now.ended && round.now.all_final()) {
    Value fields = Value::make_table();
    fields.set("state", to_string(state_at_end(round)));
    round.emit(FactKind::run_ended, {}, 0, std::move(fields));
  }
  return std::move(round.facts);
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
