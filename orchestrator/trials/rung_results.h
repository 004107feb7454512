// What the job of one start of a search's trial has left: its state in the ledger, its figures, its events.
#pragma once

#include <string>

#include "autotune/hyper/trial_history.h"
#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct RungOutcome {
  hyper::RungResult result;  // without its rung
  bool cancelled = false;    // with its run: as if nobody had started it
  std::string what;          // of an end without a metric
  double node_seconds = 0;   // of its jobs
};

// `stage` of the run in `run_dir` as planned. A metric that is no number, and a loss that is none on the way, diverged;
// a success without the metric has crashed, and says which figures there are. Steps are those that its jobs trained,
// what they did twice counted twice.
RungOutcome read_rung_outcome(const std::string& run_dir, const PlannedStage& planned, const LedgerStage& stage,
                              const std::string& metric);

}  // namespace longhaul
