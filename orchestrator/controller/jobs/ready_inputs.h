// Makes stages ready whose inputs are there: what they take and from where, and why they run again.
#pragma once

#include "orchestrator/controller/jobs/controlled_run.h"
#include "orchestrator/reuse/earlier_runs.h"
#include "orchestrator/runs/artifact_index.h"

namespace longhaul {

class ReadyInputs {
 public:
  ReadyInputs(const ControlledRun& run, ArtifactTrust trust, EarlierRuns earlier)
      : run_(run), trust_(std::move(trust)), earlier_(std::move(earlier)) {}

  // Whoever drives the run takes what its site's group has made, and says what was there and not taken. An error is no
  // reason to fail a stage for good before it was given for a minute.
  void look(const PlannedStage& planned, Observations& seen);

 private:
  void say_why(const PlannedStage& planned, PreparedStage& prepared);

  ControlledRun run_;
  ArtifactTrust trust_;
  EarlierRuns earlier_;  // of the same workflow: for sentences about why a stage runs again
};

}  // namespace longhaul
