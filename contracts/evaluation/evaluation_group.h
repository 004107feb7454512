// Several tasks under one name, as lm-evaluation-harness 0.4 has groups (lm_eval/api/group.py, GroupConfig): a file
// with the key `group`, a list of tasks, tags and other groups, and which of their metrics are put together, and how.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"

namespace longhaul {

// One metric of all tasks that have it: their mean, or the mean over all of their questions.
struct GroupMetric {
  std::string metric;
  bool weight_by_size = false;
  std::vector<std::string> filters = {"none"};  // names of lists of filters; "none" is that of a task without any
  SourcePos where;
};

struct GroupMember {
  std::string name;  // of a task, a tag or a group
  SourcePos where;
};

struct EvaluationGroup {
  std::string name;
  SourcePos where;
  std::vector<GroupMember> members;
  std::vector<GroupMetric> metrics;
  std::vector<std::string> tasks;  // of all members; filled in by whoever finds them
};

// From what a file with the key `group` says. What is wrong goes to `diagnostics`.
EvaluationGroup evaluation_group(const Value& config, Diagnostics& diagnostics);

}  // namespace longhaul
