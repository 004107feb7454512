#include "orchestrator/trials/rung_results.h"

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/trials/trial_results.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

struct RungEvents {
  std::int64_t steps = 0;
  std::string fault_class;  // of the newest attempt, as its lead named it
};

RungEvents read_rung_events(const std::string& run_dir, const LedgerStage& stage) {
  RungEvents seen;
  for (const LedgerAttempt& attempt : stage.attempts) {
    std::uint64_t offset = 0;
    const auto events =
        read_events(join_path(attempt_folder(run_dir, stage.id, attempt.number), "events.jsonl"), offset);
    seen.fault_class.clear();
    if (!events.ok()) continue;
    for (const Event& event : *events) {
      seen.steps += event.kind == "metric" && event.fields.find("loss");
      if (event.kind == fault_event_kind) seen.fault_class = fault_event_of(event).fault_class;
    }
  }
  return seen;
}

bool is_about_the_loss(const std::string& fault_class) {
  const FaultClass fault = fault_class_of(fault_class);
  return fault == FaultClass::loss_nan || fault == FaultClass::loss_spike;
}

// As the trainer says why on_spike stops it (engine/train/step/trainer.cc): the loss or the gradient is no number, or a
// spike.
bool says_loss(const std::string& cause) {
  return cause.find("(loss ") != std::string::npos && cause.find(", gradient norm ") != std::string::npos;
}

hyper::RungEnd end_of_failure(const std::string& lead_class, const std::string& end_class, const std::string& cause) {
  using hyper::RungEnd;
  if (is_about_the_loss(lead_class) || is_about_the_loss(end_class) || says_loss(cause)) return RungEnd::diverged;
  switch (outcome_of_fault(lead_class, end_class, cause)) {
    case TrialOutcome::out_of_memory: return RungEnd::out_of_memory;
    case TrialOutcome::hang: return RungEnd::hung;
    case TrialOutcome::lost: return RungEnd::lost;
    case TrialOutcome::stopped: return RungEnd::stopped;
    default: return RungEnd::crashed;
  }
}

void take_figure(const Value& figures, const std::string& metric, RungOutcome& outcome) {
  const Value* figure = figures.find(metric);
  if (figure && (figure->is_null() || (figure->is_number() && !std::isfinite(figure->as_number())))) {
    outcome.result.end = hyper::RungEnd::diverged;
    outcome.what = metric + " is no number";
  } else if (figure && figure->is_number()) {
    outcome.result.end = hyper::RungEnd::done;
    outcome.result.metric = figure->as_number();
  } else {
    std::vector<std::string> names;
    for (std::size_t i = 0; figures.is_table() && i < figures.size(); ++i) names.push_back(figures.as_table()[i].key);
    outcome.result.end = hyper::RungEnd::crashed;
    outcome.what =
        format("it ended well without the figure {}; it has {}", metric, names.empty() ? "none" : join(names, ", "));
  }
}

}  // namespace

RungOutcome read_rung_outcome(const std::string& run_dir, const PlannedStage& planned, const LedgerStage& stage,
                              const std::string& metric) {
  RungOutcome outcome;
  for (const LedgerAttempt& attempt : stage.attempts)
    outcome.node_seconds +=
        1e-3 * static_cast<double>(std::max<std::int64_t>(0, attempt.ran_ms)) * planned.common.nodes_with_spares();
  if (!is_final(stage.state)) return outcome;  // it runs, or will
  const RungEvents seen = read_rung_events(run_dir, stage);
  outcome.result.steps = seen.steps;
  switch (stage.state) {
    case StageState::succeeded:
    case StageState::cached: take_figure(stage.figures, metric, outcome); break;
    case StageState::failed:
      outcome.result.end = end_of_failure(seen.fault_class, stage.newest() ? stage.newest()->fault : "", stage.cause);
      outcome.what = stage.cause;
      break;
    case StageState::cancelled: outcome.cancelled = true; break;
    default: outcome.result.end = hyper::RungEnd::lost; outcome.what = stage.cause;
  }
  return outcome;
}

}  // namespace longhaul
