// Models that a workflow does not make but finds: an input with the path of a folder in Hugging Face's layout
// (config.json, model.safetensors, tokenizer.json) instead of "@stage". Their shapes are known before anything runs.
#pragma once

#include <string>

#include "base/error/diagnostics.h"
#include "contracts/model/model_shape.h"
#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// The folder behind the stage's input of that name; "" where it is a stage's artifact, or there is no such input.
std::string imported_folder(const PlannedStage& stage, const std::string& input = "model");

// Reads config.json there. not_found: there is none, with what a model folder has; invalid_input: a family, or
// something of a known one, that this model does not compute, by key and with what is supported.
Result<ModelShape> imported_shape(const std::string& folder);

// Every model and baseline that stages take from folders is one that the programs can load. Errors stand at the input's
// place, one for each folder.
void check_imported_models(const RunPlan& plan, const WrittenStages& written, Diagnostics& diagnostics);

}  // namespace longhaul
