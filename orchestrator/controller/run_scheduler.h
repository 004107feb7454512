// The scheduler that a run was made for, and what its site makes of the run's stages.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

struct RunScheduler {
  std::unique_ptr<Scheduler> scheduler;
  std::optional<Site> site;  // of a cluster; none for the local scheduler: there are no job scripts
  SchedulingRules rules;
  // Start of the next maintenance that concerns the run, in ms; 0: none is known. Asks the scheduler; may be empty.
  std::function<std::int64_t()> maintenance_ms;
  int cores = 1;  // shared by the ranks of a stage that does not say how many threads it wants
};
// What the site makes of one stage. Errors: the frozen site file does not take its job.
Result<StageRules> stage_rules(const Site& site, const PlannedStage& stage);
Result<RunScheduler> make_run_scheduler(const std::string& run_dir, const FrozenRun& frozen, const TickOptions& options,
                                        Clock& clock, Logger& log);

}  // namespace longhaul
