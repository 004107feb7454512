// Stages whose layout or hyperparameters other stages have found: the plan goes on with them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "orchestrator/decide/decide.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

class FoundLayouts {
 public:
  // Brings the plan, and what the site makes of it, up to the ledger. A stage that is tried again from the start goes
  // back to how it was planned.
  Status take(const RunLedger& ledger, const std::optional<Site>& site, RunPlan& plan, SchedulingRules& rules);

 private:
  struct LaidOut {
    PlannedStage as_planned;
    Value layout;
  };
  std::map<std::size_t, LaidOut> laid_out_;  // by position in the plan
};

}  // namespace longhaul
