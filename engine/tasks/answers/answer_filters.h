// Room engine/tasks/answers
// What is made of a generated answer: filters, equality, instructions that it follows (instruction_checks.h), unit
// tests that it passes as a program (program_tests.h). Start here. It must not know models, rows or figures:
// engine/tasks/harness asks and counts.
//
// What is made of generated answers before they are compared: filters and normalisations of lm-evaluation-harness
// (lm_eval/filters, exact_match of lm_eval/api/metrics.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"
#include "engine/data/patterns/answer_pattern.h"

namespace longhaul {

class AnswerFilter {
 public:
  // A pattern that cannot be used is an error with its place.
  static Result<AnswerFilter> create(const TaskFilter& filter);
  const std::string& name() const { return filter_.name; }
  // Of all answers to one question those that are judged; at least one.
  Result<std::vector<std::string>> apply(std::vector<std::string> answers) const;

 private:
  Result<std::string> extract(const TaskFilterStep& step, const AnswerPattern& pattern, const std::string& text) const;
  TaskFilter filter_;
  std::vector<std::optional<AnswerPattern>> patterns_;  // one for each step
};

// exact_match: an answer and what it should be, both as the metric's options leave them, are the same text.
class ExactMatch {
 public:
  static Result<ExactMatch> create(const TaskMetric& metric);
  Result<bool> holds(const std::string& answer, const std::vector<std::string>& targets) const;

 private:
  Result<std::string> plain(std::string text) const;
  TaskMetric metric_;
  std::vector<AnswerPattern> ignored_;
};

}  // namespace longhaul
