#include "orchestrator/trials/trial_results.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "orchestrator/state/run_folder.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

TrialOutcome outcome_of_class(FaultClass fault) {
  switch (fault) {
    case FaultClass::out_of_memory: return TrialOutcome::out_of_memory;
    case FaultClass::hang:
    case FaultClass::stuck_collective:
    case FaultClass::desynchronised:
    case FaultClass::frozen:
    case FaultClass::no_progress:
    case FaultClass::nccl_timeout: return TrialOutcome::hang;
    case FaultClass::time_limit:
    case FaultClass::wall_time:
    case FaultClass::cancelled:
    case FaultClass::cancelled_there: return TrialOutcome::stopped;
    case FaultClass::lost:
    case FaultClass::not_started:
    case FaultClass::node_fail:
    case FaultClass::boot_fail:
    case FaultClass::launch_failed:
    case FaultClass::preempted:
    case FaultClass::interrupted:
    case FaultClass::host_unreachable:
    case FaultClass::agent_lost: return TrialOutcome::lost;
    case FaultClass::bad_input: return TrialOutcome::refused;
    default: return TrialOutcome::crash;
  }
}

// What the engine says before the first step where the machine's memory is too small for its plan.
bool says_memory(const std::string& cause) {
  for (const char* sign :
       {"out of memory", "Out Of Memory", "std::bad_alloc", "Cannot allocate memory", "oom-kill", "too little memory"})
    if (cause.find(sign) != std::string::npos) return true;
  return false;
}

struct TrialEvents {
  std::vector<double> step_seconds;
  std::vector<std::pair<std::int64_t, double>> losses;
  std::int64_t steps_done = 0, peak_bytes = 0;
  int unreadable = 0;
  std::string fault_class, cause;
};

TrialEvents read_trial_events(const std::string& path, double tokens_per_step, std::int64_t warmup_steps) {
  TrialEvents seen;
  std::uint64_t offset = 0;
  const auto events = read_events(path, offset);
  if (!events.ok()) return seen;
  std::set<std::int64_t> steps;  // each once, whatever was done again
  for (const Event& event : *events) {
    if (event.kind == "metric" && event.fields.find("tokens_per_s")) {
      const std::int64_t step = event.fields.get_integer("step");
      // Of a step with padding the rate is that of the tokens alone.
      const double seconds =
          event.fields.get_number("step_s", tokens_per_step / event.fields.get_number("tokens_per_s"));
      if (step < 1 || !std::isfinite(seconds) || seconds <= 0) {
        ++seen.unreadable;
        continue;
      }
      seen.steps_done = std::max(seen.steps_done, step);
      if (const Value* loss = event.fields.find("loss"); loss && loss->is_number())
        seen.losses.emplace_back(step, loss->as_number());
      if (step > warmup_steps && steps.insert(step).second) seen.step_seconds.push_back(seconds);
    } else if (event.kind == "memory") {
      seen.peak_bytes = event.fields.get_integer("held_bytes");
    } else if (event.kind == fault_event_kind) {
      const FaultEvent fault = fault_event_of(event);
      seen.fault_class = fault.fault_class;
      seen.cause = fault.cause;
    }
  }
  return seen;
}

}  // namespace

TrialOutcome outcome_of_fault(const std::string& lead_class, const std::string& end_class, const std::string& cause) {
  if (says_memory(cause)) return TrialOutcome::out_of_memory;
  const TrialOutcome by_end = outcome_of_class(fault_class_of(end_class));
  if (by_end != TrialOutcome::crash || lead_class.empty()) return by_end;
  const TrialOutcome by_lead = outcome_of_class(fault_class_of(lead_class));
  return by_lead == TrialOutcome::stopped ? by_end : by_lead;
}

TrialResult read_trial_result(const std::string& run_dir, const PlannedStage& planned, const LedgerStage& stage,
                              std::int64_t warmup_steps) {
  TrialResult result;
  result.name = planned.variant;
  result.nodes = planned.common.nodes_with_spares();
  for (const LedgerAttempt& attempt : stage.attempts)
    result.node_seconds += 1e-3 * static_cast<double>(std::max<std::int64_t>(0, attempt.ran_ms)) * result.nodes;
  TrialEvents seen;
  if (const LedgerAttempt* attempt = stage.newest()) {
    const double tokens = static_cast<double>(planned.settings.get_integer("global_batch_size")) *
                          static_cast<double>(planned.settings.get_integer("sequence_length"));
    seen = read_trial_events(join_path(attempt_folder(run_dir, stage.id, attempt->number), "events.jsonl"), tokens,
                             warmup_steps);
  }
  result.step_seconds = std::move(seen.step_seconds);
  result.losses = std::move(seen.losses);
  result.peak_bytes = seen.peak_bytes;
  result.steps_done = seen.steps_done;
  if (seen.unreadable > 0) result.what = format("{} metrics of it are no numbers", seen.unreadable);
  switch (stage.state) {
    case StageState::waiting:
    case StageState::ready:
    case StageState::submitted: result.outcome = TrialOutcome::waiting; break;
    case StageState::running: result.outcome = TrialOutcome::running; break;
    case StageState::succeeded:
    case StageState::cached:
      result.outcome = stage.figures.find("steps_planned") != nullptr ? TrialOutcome::stopped : TrialOutcome::measured;
      if (result.outcome == TrialOutcome::stopped) result.what = "it could not win any more";
      break;
    case StageState::failed:
      result.outcome = outcome_of_fault(seen.fault_class, stage.newest() ? stage.newest()->fault : "", stage.cause);
      result.what = stage.cause;
      break;
    case StageState::cancelled: result.what = stage.cause; break;  // with its run: it may be run again
    case StageState::skipped:
      result.outcome = TrialOutcome::lost;
      result.what = stage.cause;
      break;
  }
  return result;
}

}  // namespace longhaul
