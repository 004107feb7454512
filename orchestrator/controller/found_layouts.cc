#include "orchestrator/controller/found_layouts.h"

#include "orchestrator/controller/run_scheduler.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {

Status FoundLayouts::take(const RunLedger& ledger, const std::optional<Site>& site, RunPlan& plan,
                          SchedulingRules& rules) {
  for (std::size_t i = 0; i < ledger.stages.size(); ++i) {  // in plan order
    const Value& layout = ledger.stages[i].layout;
    const auto known = laid_out_.find(i);
    if (known == laid_out_.end() ? layout.is_null() : known->second.layout == layout) continue;
    PlannedStage& planned = plan.stages[i];
    if (known != laid_out_.end()) planned = known->second.as_planned;  // tried again from the start
    laid_out_.erase(i);
    if (layout.is_null()) continue;
    LaidOut kept{planned, layout};
    LH_TRY(planned, with_found(planned, layout));
    if (site && !rules.stages.empty()) {
      LH_TRY(rules.stages[i], stage_rules(*site, planned));
    }
    laid_out_.emplace(i, std::move(kept));
  }
  return {};
}

}  // namespace longhaul
