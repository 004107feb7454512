// Figures of several tasks together: those of a tag, and those of a group's aggregate_metric_list.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_group.h"
#include "engine/tasks/common/measure.h"

namespace longhaul {

// Of several tasks together under the name of their tag: TAG.METRIC for each share that all of them have, over all
// questions, with the standard error that lm-evaluation-harness pools (pooled_sample_stderr), and TAG.questions.
std::vector<Figure> pooled_figures(const std::string& tag, const std::vector<const ItemScores*>& tasks);

// The items of all of them, one after the other, by these metrics: what two models are compared on. Lines are numbers
// in that order; no samples.
ItemScores pooled_scores(const std::string& tag, const std::vector<const ItemScores*>& tasks);

// A task of a group.
struct GroupTask {
  const EvaluationTask* task = nullptr;  // borrowed
  const ItemScores* scores = nullptr;    // borrowed
};

// GROUP.METRIC, with several filters GROUP.METRIC.LIST: the mean over the tasks that have it, or with weight_by_size
// over their questions; `_stderr` as lm-evaluation-harness pools it, which is that of a mean over all questions in
// either case; GROUP.questions.
std::vector<Figure> group_figures(const EvaluationGroup& group, const std::vector<GroupTask>& tasks);

// With a baseline, of the same tasks in the same order: GROUP.METRIC_difference with `_low` and `_high`, a normal
// interval of the tasks' paired differences in the group's weights.
std::vector<Figure> group_differences(const EvaluationGroup& group, const std::vector<GroupTask>& tasks,
                                      const std::vector<GroupTask>& baseline);

}  // namespace longhaul
