// The settings of a task that take part in its key.
#pragma once

#include "contracts/tasks/task.h"

namespace longhaul {

// Without those that change how fast a stage is and never what it makes.
Value settings_of_key(const Task& task);

}  // namespace longhaul
