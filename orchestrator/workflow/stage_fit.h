// What can be known before anything is submitted about whether a stage's settings agree with each other, with its
// inputs, and with the model that an earlier stage of the workflow will make.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "orchestrator/workflow/source/file_view.h"

namespace longhaul {

struct FittedStage {  // one variant of a stage in which nothing else is wrong
  std::string name;
  std::string kind;
  const Value* settings;            // complete
  const Value* written;             // the stage's table, for places
  std::vector<std::string> inputs;  // names of those given
  std::string model_from;           // the stage whose model it takes, "" if that is a path or none
  std::string text_from;            // the same of its tokens, or of its corpus where it is a tokenize stage
  ParallelDims dims = {};           // its layout; with a tune stage's until it is known, replicas
  std::string model_folder = {};    // of a model that is there; "": a stage makes it, or it takes none
  std::string teacher_from = {}, teacher_folder = {};  // the same two of the model that it learns from
  std::string adapter_from = {}, adapter_within = {};  // the stage whose adapter it takes, and where in its artifact
  std::string reward_from = {};                        // the stage whose reward model judges its answers
};

// The stages do not wait for each other in a loop. Of `files` config.json of models that are there is read, and with a
// teacher tokenizer.json; what cannot be is nobody's problem here (layout/imported_model.h).
void check_stages_fit(const std::vector<FittedStage>& stages, const FileView& files, Diagnostics& diagnostics);

}  // namespace longhaul
