// Where a workflow uses one of its params.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

struct ParamUse {
  std::string section;            // "stage.pretrain", "params", "workflow"
  std::vector<std::string> path;  // below it: {"optimizer", "lr"}; "[2]" is an element of a list
  bool whole = false;             // "${params.NAME}" and nothing else
  std::string text() const;       // "stage.pretrain.optimizer.lr"
};

// Of ${params.NAME} and its members in a workflow as it was written.
std::vector<ParamUse> uses_of_param(const Value& workflow, const std::string& name);

}  // namespace longhaul
