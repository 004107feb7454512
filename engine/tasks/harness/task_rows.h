// Rows of a task's splits, as the data sets library gives them: every row has every column, null where its line says
// nothing of it.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"

namespace longhaul {

struct TaskRows {
  std::vector<std::string> columns;
  std::vector<Value> rows;  // tables with all columns, in their order
};

// Of a split that the task has. JSON Lines, or one list of objects; CSV with a line of names, whose columns are whole
// numbers or numbers where all of their fields are, and null where a field is empty or stands for nothing (nan, NA,
// ...); text: a row {"text"} for each line. Errors carry file and line.
Result<TaskRows> read_task_rows(const EvaluationTask& task, const std::string& split);

// Of rows that are there already: few-shot examples of the task's file.
TaskRows rows_of(const std::vector<Value>& tables);

}  // namespace longhaul
