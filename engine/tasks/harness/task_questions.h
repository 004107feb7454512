// What a task asks a model: contexts with few-shot examples, and what is scored or generated behind them, as
// lm-evaluation-harness's ConfigurableTask.fewshot_context and construct_requests make them. Pure but for reading rows.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"
#include "engine/data/template/chat_template.h"

namespace longhaul {

struct TaskRequest {
  std::string context;       // "": nothing stands before, and of a rolling log-likelihood
  std::string continuation;  // "": to be generated
};

struct TaskQuestion {
  int line = 0;                       // number of the row in its split, from 1
  std::vector<TaskRequest> requests;  // of multiple_choice one for each choice, else one
  std::vector<std::string> choices;
  std::vector<std::size_t> right;    // of multiple_choice: which choices are right; at least one
  std::vector<std::string> targets;  // of the others: any of them is right
  Value row = {};                    // the whole of it, where a metric looks at more (EvaluationTask::keeps_rows)
};

// Questions as turns of a conversation, by the model's own template: the description is the system's, the question the
// user's. A template that refuses the system's turn is asked without it.
struct TaskChat {
  const ChatTemplate* chat_template = nullptr;  // null: plain texts. Borrowed
  bool examples_as_turns = false;               // each example a turn and its answer; else all in the user's turn
};

// All rows of the split that is asked. Errors carry the row.
Result<std::vector<TaskQuestion>> task_questions(const EvaluationTask& task, const TaskChat& chat = {});

}  // namespace longhaul
