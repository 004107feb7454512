// Whether an answer follows instructions that a program can check: the 25 kinds of IFEval (Zhou et al. 2023,
// arXiv:2311.07911, table 1), with the meanings that lm-evaluation-harness gives them (lm_eval/tasks/ifeval).
//
// A row names its instructions in `instruction_id_list` and what they ask for in `kwargs`, a table for each, in which
// null, 0 and empty texts are as good as left out. What an instruction needs and a row leaves out is an error, where
// lm-evaluation-harness draws something.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

// What one instruction asks for, by the names of the data set.
class InstructionArguments {
 public:
  InstructionArguments() = default;
  InstructionArguments(std::string instruction, Value given)
      : instruction_(std::move(instruction)), given_(std::move(given)) {}
  const std::string& instruction() const { return instruction_; }
  bool has(const std::string& key) const;
  // invalid_input where they are missing or of another kind.
  Result<std::string> text(const std::string& key) const;  // without white space around it
  Result<std::int64_t> whole(const std::string& key) const;
  Result<std::vector<std::string>> texts(const std::string& key) const;
  // Whether `count` is as many as asked for: "at least" or "less than" in `relation_key`, how many in `count_key`.
  Result<bool> compares(std::int64_t count, const std::string& count_key, const std::string& relation_key) const;

 private:
  Error missing(const std::string& key, const char* what) const;
  std::string instruction_;
  Value given_;  // a table
};

class InstructionChecks {
 public:
  // From a row. invalid_input: an instruction that is not known, lists of different lengths.
  static Result<InstructionChecks> create(const Value& row);
  std::size_t size() const { return instructions_.size(); }

  // For each instruction whether the answer follows it; an answer of white space follows none.
  Result<std::vector<bool>> strict(const std::string& answer) const;
  // The same of the best of eight readings: with or without asterisks, and with or without the first and the last line.
  Result<std::vector<bool>> loose(const std::string& answer) const;

 private:
  std::vector<InstructionArguments> instructions_;
};

// Names of the instructions that are known, in the order of their table.
std::vector<std::string> instruction_names();

}  // namespace longhaul
