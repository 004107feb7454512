// What a job that succeeded has made: whether it is whole, whether other runs may have it, and what its training took.
#pragma once

#include "orchestrator/controller/jobs/controlled_run.h"
#include "orchestrator/forecast/layout_search.h"
#include "orchestrator/runs/artifact_index.h"

namespace longhaul {

struct ArtifactUse {
  ArtifactTrust trust;
  StepPrediction predict = {};  // of pretrainings; empty: what they took is not kept
};

// Adds the artifact of a stage whose newest job says that it succeeded, or that it is broken. io: it may be whole, and
// has to be looked at again.
Status observe_artifact(const ControlledRun& run, const ArtifactUse& use, const LedgerStage& stage, Observations& seen);

}  // namespace longhaul
