// Rows that reward models learn from beside pairs: answers with values of attributes, and answers in steps. Forms:
// contracts/settings/stages/tuning_row_form.h. What a row says is used, or refused by name. All problems of a file are
// reported together, with their lines (at most 20 are shown).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contracts/settings/training/training.h"
#include "engine/data/samples/tuning_rows.h"

namespace longhaul {

// An answer and what a row says of it: one value for each attribute, or one label for each of its steps. NaN: not said.
struct RatedExample {
  std::vector<ChatMessage> prompt;  // ends with the user, or with the answer of a tool
  std::vector<ChatMessage> answer;  // one message of the assistant, of process all its steps with the separators
  Value tools = {};                 // as of an InstructExample
  std::vector<double> values;
  std::string category = {};  // as of a PreferenceExample
  int line = 0;               // of its file
};

// Errors (invalid_input) name the key: a value that is no number, or outside its attribute's bounds. `needs_value`: a
// row without any value is refused; else it has none.
Result<RatedExample> rated_of_row(const Value& row, const RewardForm& form, std::span<const std::string> ignore,
                                  bool needs_value);
// Errors (invalid_input): labels that are not one for each step, or not between 0 and 1; a step that is empty or holds
// the separator; no label at all.
Result<RatedExample> stepped_of_row(const Value& row, const RewardForm& form, std::span<const std::string> ignore);

// Of a file, by the form's method: attributes or process.
Result<std::vector<RatedExample>> parse_rated(std::string_view text, const std::string& name, const RewardForm& form,
                                              std::span<const std::string> ignore, bool needs_value);
Result<std::vector<RatedExample>> read_rated(const std::string& path, const RewardForm& form,
                                             std::span<const std::string> ignore, bool needs_value);

// `ignore` and the names of the attributes: what the row's form does not know, and is no mistake.
std::vector<std::string> keys_beside_form(const RewardForm& form, std::span<const std::string> ignore);

}  // namespace longhaul
