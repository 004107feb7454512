// Units that hold more than twice what most do: the ends of a model, where their vocabulary is. A message of one of
// them does not travel beside other kinds of messages of one (engine/train/bucket_gradient_sum.h,
// engine/model/unit_gather.h): how much memory messages take would be chance, and the plan of memory could not tell it.
#pragma once

#include <vector>

#include "contracts/parameter_layout.h"

namespace longhaul {

// By unit of the layout.
std::vector<bool> large_units(const ParameterLayout& layout);

}  // namespace longhaul
