// From a model's answers to a task's figures, as ConfigurableTask.process_results and lm_eval/api/metrics.py do.
#pragma once

#include <vector>

#include "engine/tasks/answers/program_tests.h"
#include "engine/tasks/common/measure.h"
#include "engine/tasks/harness/task_questions.h"

namespace longhaul {

// To one question: of each request its log-probability and whether it is what the model would have said; of
// generate_until the texts.
struct TaskAnswer {
  std::vector<double> log_probabilities;
  std::vector<bool> most_likely;
  std::vector<std::string> texts;
};

// What figures need beside answers.
struct ScoringTools {
  // Judges programs, in their order; empty: tasks that have any are refused (unsupported).
  std::function<Result<std::vector<ProgramVerdict>>(const std::vector<TestedProgram>&)> judge;
};

// Figures are called TASK.METRIC, with a task that has several lists of filters TASK.METRIC.LIST; each has its standard
// error beside it (`_stderr`), shares their Wilson intervals, and TASK.questions says how many there were. The standard
// error of a mean is lm-evaluation-harness's; those of perplexities, which it draws (bootstrap), are worked out to
// first order (the delta method).
Result<MeasuredItems> score_task(const EvaluationTask& task, const std::vector<TaskQuestion>& questions,
                                 const std::vector<TaskAnswer>& answers, const ScoringTools& tools = {});

}  // namespace longhaul
