#include "orchestrator/fit/check_fit.h"

#include "orchestrator/fit/budget_fit.h"
#include "orchestrator/fit/context_fit.h"
#include "orchestrator/fit/core_fit.h"
#include "orchestrator/fit/memory_fit.h"
#include "orchestrator/fit/space_fit.h"
#include "orchestrator/fit/wall_fit.h"

namespace longhaul {

FitFindings check_fit(const FitCase& fit, const std::vector<std::string>& allowed) {
  FitFindings report(allowed);
  check_memory_fit(fit, report);
  check_context_fit(fit, report);
  check_core_fit(fit, report);
  check_wall_fit(fit, report);
  check_space_fit(fit, report);
  check_budget_fit(fit, report);
  return report;
}

}  // namespace longhaul
