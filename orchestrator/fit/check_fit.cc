#include "orchestrator/fit/check_fit.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/fit/budget_fit.h"
#include "orchestrator/fit/context_fit.h"
#include "orchestrator/fit/core_fit.h"
#include "orchestrator/fit/memory_fit.h"
#include "orchestrator/fit/space_fit.h"
#include "orchestrator/fit/wall_fit.h"

namespace longhaul {

namespace {

std::string no_site_note(const FitCase& fit) {
  const auto widest = std::ranges::max_element(
      fit.plan.stages, {}, [](const PlannedStage& stage) { return stage.common.nodes_with_spares(); });
  return format(
      "no site was given, and stage.{} asks for {} nodes: devices, jobs, cores, memory, time, space and budget are not "
      "checked; --site NAME checks them (`longhaul sites` lists the names)",
      widest->stage, widest->common.nodes_with_spares());
}

}  // namespace

FitFindings check_fit(const FitCase& fit, const std::vector<std::string>& allowed) {
  FitFindings report(allowed);
  check_context_fit(fit, report);
  if (fit.no_site) {
    report.note(no_site_note(fit));
    return report;
  }
  check_memory_fit(fit, report);
  check_core_fit(fit, report);
  check_wall_fit(fit, report);
  check_space_fit(fit, report);
  check_budget_fit(fit, report);
  return report;
}

}  // namespace longhaul
