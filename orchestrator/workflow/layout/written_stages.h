// The tables of a workflow as they are written, for the places of their keys: a plan keeps only those of the common
// ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct WrittenStages {
  Value workflow;                       // the table [workflow]
  Value root;                           // all of it, before parameters took their places
  std::map<std::string, Value> stages;  // by name; of a matrix, the first variant's

  // Where the first of `keys` ("checkpoint.keep_last") stands that the user wrote in this stage, and not in a recipe;
  // else the stage's place.
  SourcePos place(const PlannedStage& stage, const std::vector<std::string>& keys) const;
  // The workflow or its recipe says it: it is no default.
  bool says(const PlannedStage& stage, const std::string& key) const;
  // What a command line takes to give a key of the stage another value: "--set stage.pretrain.ranks=1", or
  // "--set params.ranks=1" where the key is that parameter.
  std::string set_text(const PlannedStage& stage, const std::string& key, const std::string& value) const;
  // Of a key of [workflow]; the whole table's without it.
  SourcePos workflow_place(const std::string& key) const;
};

}  // namespace longhaul
