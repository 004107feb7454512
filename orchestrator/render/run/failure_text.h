// What people read of a failure: its sentence once and first, why it was not tried again, and what to type next.
#pragma once

#include <string>

#include "orchestrator/state/run_status.h"

namespace longhaul {

// The sentence of a cause before who said it and how it ended: "rank 0 ended: exit code 3: longhaul-engine rank 0:
// stage a: X" becomes "X (rank 0, exit code 3)". Other causes as they are.
std::string cause_sentence(const std::string& cause);

// A paragraph for each failed stage, and one line for all that were skipped with the same cause. "" without any.
std::string failures_text(const RunStatus& status);

// What to type after a run that has failed or was cancelled. Where the settings or inputs were refused, doing the same
// again is not offered: the file is to be corrected, and finished stages are taken from this run.
std::string next_step_text(const RunStatus& status);

// "" where the file is as the run's copy of it, or is not there any more; else which lines differ, and that the run
// does not use them. `path` is the file, `now` its text, `copy` the run's.
std::string changed_workflow_text(const std::string& path, const std::string& now, const std::string& copy);

}  // namespace longhaul
