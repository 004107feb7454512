// A rank's place among the others, in the variables that torchrun sets and programs of others read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/launch/rank_arguments.h"

namespace longhaul {

// By the launcher of this process: RANK, LOCAL_RANK, LOCAL_WORLD_SIZE, and NODE_RANK below srun. What the launcher does
// not say is left out.
std::vector<std::pair<std::string, std::string>> rank_place(const Variable& variable);

}  // namespace longhaul
