// Parts of evaluation_task.cc: values of keys, metrics, filters and generation of a task.
#pragma once

#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"

namespace longhaul {

// Values of keys by the kind that they have to be; what is of another one is an error, and empty.
class TaskValues {
 public:
  explicit TaskValues(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}
  void refuse(const SourcePos& where, std::string what, std::string hint = {});
  void unknown(const ValueMember& member, const std::string& of, const std::vector<std::string>& known);
  std::string text(const Value& value, const std::string& key);
  std::vector<std::string> texts(const Value& value, const std::string& key);  // one text stands for a list of it
  std::int64_t whole(const Value& value, const std::string& key, std::int64_t least, std::int64_t most);
  double number(const Value& value, const std::string& key, double least, double most);
  bool yes_or_no(const Value& value, const std::string& key);
  const ValueTable& table(const Value& value, const std::string& key);
  const ValueArray& list(const Value& value, const std::string& key);

 private:
  Diagnostics& diagnostics_;
};

// `list` null: those that lm-evaluation-harness takes where none is named.
std::vector<TaskMetric> read_metrics(const Value* list, TaskOutput output, const SourcePos& task, TaskValues& read);
// For a task whose output, repeats and metrics are read.
std::vector<TaskFilter> read_filters(const Value* list, const EvaluationTask& task, TaskValues& read);
void read_generation(const Value* kwargs, EvaluationTask& task, TaskValues& read);

}  // namespace longhaul
