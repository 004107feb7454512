// The inputs of a command, a file for each with a path a line: `$LONGHAUL_PATHS_<NAME>` beside
// `$LONGHAUL_INPUT_<NAME>`, whose paths are joined by blanks, which is ambiguous where a path has one itself.
#pragma once

#include <string>

#include "contracts/tasks/task.h"

namespace longhaul {

std::string input_list_path(const std::string& launch_dir, const TaskInput& input);
// invalid_input: a path has a line end.
Status write_input_lists(const Task& task, const std::string& launch_dir);

}  // namespace longhaul
