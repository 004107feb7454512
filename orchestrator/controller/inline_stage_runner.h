// Who moves on the stages that a controller carries out itself (inline_stage.h). The trials of tune and search stages
// are runs with controllers of their own, so their code stands above the controller's: the controller knows this much
// alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

class InlineStageRunner {
 public:
  virtual ~InlineStageRunner() = default;

  // Moves every stage of its kind on that has begun, and adds how each stands, by submission key. conflict: another
  // controller drives the run.
  virtual Status look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs) = 0;
  // The scheduler was silent, or what it was asked for may have happened.
  virtual bool unanswered() const = 0;
};

// All borrowed but the function, and outlived by the runners. `may_act`: see NestedRunSetup (nested_run.h).
struct InlineStageSetup {
  const std::string& run_dir;
  const FrozenRun& run;
  const TickOptions& options;
  Clock& clock;
  Logger& log;
  std::function<Status()> may_act;
};

// One for each kind of stage that a controller carries out itself. Defined beside the kinds (inline_stage_runners.cc).
std::vector<std::unique_ptr<InlineStageRunner>> inline_stage_runners(const InlineStageSetup& setup);

}  // namespace longhaul
