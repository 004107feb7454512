#include "orchestrator/decide/needs.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

// No milestone comes any more: the stage has ended, and somebody looked after that.
bool milestones_are_final(const LedgerStage& stage, const Observations* seen) {
  return is_final(stage.state) && (stage.key.empty() || (seen && seen->milestones.contains(stage.id)));
}

bool has_milestones(const PlannedStage& planned, const LedgerStage& needed) {
  const auto steps = planned.milestones_of(needed.id);
  return std::all_of(steps.begin(), steps.end(), [&](std::int64_t step) { return needed.milestones.contains(step); });
}

std::string without_milestone(const PlannedStage& planned, const LedgerStage& needed) {
  std::int64_t missing = 0;
  for (const std::int64_t step : planned.milestones_of(needed.id))
    if (!needed.milestones.contains(step)) missing = step;
  std::string text = format("it needs the milestone of step {} of {}", missing, needed.id);
  if (needed.state == StageState::cached)
    return text + format(
                      ", which is taken from an earlier run that published none there; to train it again, give the "
                      "runs another root of artifacts: --set 'site.artifacts=\"FOLDER\"'");
  if (needed.state == StageState::succeeded && needed.figures.get_number("steps") < static_cast<double>(missing))
    return text + format(", which ended after step {:.0f}", needed.figures.get_number("steps"));
  if (needed.state == StageState::succeeded) return text + ", which ended well and left none that is whole";
  return text + format(", which is {} and did not come so far", to_string(needed.state));
}

}  // namespace

Need state_of_need(const RunPlan& plan, const RunLedger& ledger, const PlannedStage& planned, const std::string& id,
                   const Observations* seen) {
  const LedgerStage* needed = ledger.find(id);
  if (!needed) return Need::broken;
  const NeedEdge edge = planned.edge_to(id);
  if (edge == NeedEdge::milestone) {
    if (has_milestones(planned, *needed)) return Need::met;
    return milestones_are_final(*needed, seen) ? Need::broken : Need::open;
  }
  if (!is_final(needed->state)) return Need::open;
  const bool failed = needed->state == StageState::failed;
  if (edge == NeedEdge::afternotok) return failed ? Need::met : Need::broken;
  if (needed->has_artifact() || (edge == NeedEdge::afterany && failed)) return Need::met;
  const PlannedStage* of_need = plan.find(id);
  const bool tolerated = failed && of_need && of_need->common.on_failure == "continue";
  return tolerated ? Need::met : Need::broken;
}

bool has_source(const PlannedInput& input, const RunLedger& ledger) {
  if (input.stages.empty()) return true;
  return std::any_of(input.stages.begin(), input.stages.end(), [&](const std::string& id) {
    const LedgerStage* stage = ledger.find(id);
    if (!stage) return false;
    return input.milestone > 0 ? stage->milestones.contains(input.milestone) : stage->has_artifact();
  });
}

std::string blocked_by(const RunPlan& plan, const RunLedger& ledger, const PlannedStage& planned,
                       const Observations& seen) {
  bool open = false;
  for (const std::string& id : planned.needs) {
    const Need need = state_of_need(plan, ledger, planned, id, &seen);
    if (need == Need::broken) {
      const LedgerStage* needed = ledger.find(id);
      if (needed && planned.edge_to(id) == NeedEdge::milestone) return without_milestone(planned, *needed);
      return format("it needs {}, which is {}", id, needed ? to_string(needed->state) : "not in the plan");
    }
    open = open || need == Need::open;
  }
  if (open) return {};
  for (const PlannedInput& input : planned.inputs) {
    if (has_source(input, ledger)) continue;
    if (input.milestone == 0)
      return format("its input {} has no artifact: {} failed", input.name, join(input.stages, ", "));
    const LedgerStage* needed = ledger.find(input.stages.front());  // needed as a whole, too, and so it has ended
    if (needed && milestones_are_final(*needed, &seen)) return without_milestone(planned, *needed);
  }
  return {};
}

bool runs_after_failure(const PlannedStage& planned, const RunLedger& ledger) {
  return std::any_of(planned.edges.begin(), planned.edges.end(), [&](const auto& edge) {
    const LedgerStage* needed = ledger.find(edge.first);
    return edge.second != NeedEdge::milestone && needed && needed->state == StageState::failed;
  });
}

bool lacks_milestone(const PlannedStage& planned, const RunLedger& ledger) {
  return std::any_of(planned.inputs.begin(), planned.inputs.end(), [&](const PlannedInput& input) {
    const LedgerStage* needed = input.milestone > 0 ? ledger.find(input.stages.front()) : nullptr;
    return needed && needed->has_artifact() && !needed->milestones.contains(input.milestone) &&
           !needed->figures.find("steered");
  });
}

}  // namespace longhaul
