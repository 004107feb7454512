// What makes a stage another one than an earlier run's: the parts of its key (contracts/tasks/task.h) that differ.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "contracts/tasks/task.h"
#include "orchestrator/decide/input_files.h"

namespace longhaul {

struct StageChange {
  std::string what;      // setting | input | file | program
  std::string name;      // "vocabulary", "optimizer.lr"; of an input; a file's path; the kind
  std::string from, to;  // as text; "" where there was or is nothing, or it is too long to be shown
  std::string text() const;
};

// A stage as it would run, or ran: its task, and its raw inputs file by file as far as they are known.
struct StageSeen {
  Task task;
  std::vector<InputFiles> files;
};

// From `then` to `now`, program first, then settings as they stand in the workflow's reference, then inputs. Settings
// that change the speed alone are no change. Inputs without a digest in `now` (their source runs first) are left out.
std::vector<StageChange> stage_changes(const StageSeen& then, const StageSeen& now);

// "vocabulary 1024 -> 2048, input changed: texts/000.txt, and 3 more changes"; at most `count` of them.
std::string changes_text(const std::vector<StageChange>& changes, std::size_t count = 3);

}  // namespace longhaul
