// Whether the model that a task trains has experts: known before the stage begins, for what ranks do together before.
#pragma once

#include "contracts/tasks/task.h"

namespace longhaul {

// Reads config.json of a model that the training starts from. One that cannot be read is taken to have none: the stage
// says what is wrong with it.
bool trains_experts(const Task& task);

}  // namespace longhaul
