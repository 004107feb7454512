// Room engine/tasks/harness
// Asks a model what tasks of lm-evaluation-harness's form ask (contracts/evaluation), and makes figures of its answers.
// Start here; task_rows.h reads rows, task_questions.h makes requests of them, task_scores.h figures of the answers.
// It must not know stages; requests and figures know no model.
#pragma once

#include <string>

#include "contracts/evaluation/evaluation_task.h"
#include "engine/tasks/harness/evaluated_model.h"
#include "engine/tasks/harness/task_scores.h"

namespace longhaul {

// Tokens are lm-evaluation-harness's (HFLM with its defaults): nothing is put before a context but where there is none;
// blanks at a context's end go with what follows; what is longer than the model's window loses its beginning; control
// tokens that a text spells out are those tokens. Where answers are drawn, each belongs to its row, its number and a
// fixed seed.
Result<MeasuredItems> measure_task(TaskRun& run, EvaluatedModel& model, const EvaluationTask& task,
                                   const TaskChat& chat = {}, const ScoringTools& tools = {});

}  // namespace longhaul
