// Room orchestrator/controller/jobs
// The jobs of a run as its controller sees, starts and ends them.
// controlled_run.h is what all parts look at; job_observer.h sees, scheduler_calls.h asks, attempt_files.h writes what
// a job needs before it is submitted; ready_inputs.h prepares stages, artifact_observer.h takes what jobs have made. It
// decides nothing (orchestrator/decide) and writes no fact itself: the round above it does.
//
// What the parts of a controller know of its run. All borrowed from the controller, which changes the plan where
// layouts are found, and the ledger with every fact.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

struct ControlledRun {
  const std::string& run_dir;
  const FrozenRun& frozen;
  const RunLedger& ledger;
  const std::optional<Site>& site;  // of a cluster; without one there are no job scripts
  const SchedulingRules& rules;
  const int& cores;                      // shared by the ranks of a stage that does not say how many threads it wants
  const std::string& programs_dir;       // that drive the run and do its work; empty: the run's own
  const std::string& worker_fault_plan;  // handed to the leads that are started (tests)
  const std::function<void(const std::string&)>& notice;  // a sentence for who waits; empty: nobody does
  Clock& clock;
  Logger& log;

  // The ledger's stages stand in plan order.
  const PlannedStage& planned_of(const LedgerStage& stage) const {
    return frozen.plan.stages[static_cast<std::size_t>(&stage - ledger.stages.data())];
  }
};

}  // namespace longhaul
