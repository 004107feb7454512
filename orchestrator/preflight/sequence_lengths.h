// How long the sequences of stages are that begin with a model which the plan knows, be it made by a stage of the
// workflow or ready in a folder.
#pragma once

#include "base/error/diagnostics.h"
#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Lowers a sequence_length that nobody wrote to the model's max_position_embeddings, so that the default of a stage
// does not contradict its model; what is written is held against it by the planner (workflow/stage_fit.h). An error
// where answers of rollouts then have no room. Reads config.json of models in folders.
void decide_sequence_lengths(const WrittenStages& written, RunPlan& plan, Diagnostics& diagnostics);

}  // namespace longhaul
