// The files of tasks in an input: *.yaml and *.yml of a folder and all below it, or such files themselves. A file with
// the key `task` describes one, a file with the key `group` names several; a file without either is there to be
// included. `include: FILE` (or a list, of which the first counts most) takes the keys of other files, beside the one
// that names them; its own keys win.
//
// All that a task reads has to lie in its input, for that is what says whether a stage has to run again.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_group.h"
#include "contracts/evaluation/evaluation_task.h"

namespace longhaul {

struct ChosenTasks {
  std::vector<EvaluationTask> tasks;
  std::vector<EvaluationGroup> groups;  // those that are named, and theirs
};
// The tasks called `names` (their own names, tags or groups), in that order, each once. What is wrong with them, and
// names that no file has, go to `diagnostics`; files that are not asked for may be anything.
ChosenTasks choose_tasks(const std::vector<std::string>& paths, const std::vector<std::string>& names,
                         Diagnostics& diagnostics);
// Its tasks alone.
std::vector<EvaluationTask> evaluation_tasks(const std::vector<std::string>& paths,
                                             const std::vector<std::string>& names, Diagnostics& diagnostics);
// Tasks that run what the model wrote, which a stage has to allow (`run_code`): an error for each where it does not.
void check_code_is_allowed(const std::vector<EvaluationTask>& tasks, bool allowed, Diagnostics& diagnostics);

// What `evaluate` measures without a file; names of its setting `tasks`.
const std::vector<std::string>& built_in_evaluations();

}  // namespace longhaul
