// One row of tuning data, in any of the forms of contracts/settings/stages/tuning_row_form.h, as a conversation or as
// pairs of answers. What a row says is used, or refused by name: nothing is left out in silence. A key whose value is
// null counts as not there, as tables written column by column have every key in every row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/stages/tuning_row_form.h"
#include "engine/data/template/chat.h"

namespace longhaul {

// Either a conversation that ends with the assistant and in which one answer at least is trained on, or a text.
struct InstructExample {
  std::vector<ChatMessage> messages;
  std::string text;  // of the form `text`: trained on as it stands
  int line = 0;      // of its file, from 1; 0: not set
  Value tools = {};  // that its answers may call: a list (read_tools), or null
};

struct PreferenceExample {
  std::vector<ChatMessage> prompt;            // ends with the user, or with the answer of a tool
  std::vector<ChatMessage> chosen, rejected;  // each begins and ends with the assistant; what it says there is compared
  int line = 0;
  Value tools = {};  // as of an InstructExample
  // For reward models.
  double margin = 0;          // by how much the chosen answer is better, at least 0
  std::string category = {};  // letters, digits, '-', '_', '.'; "": none
};

// An answer that is good or bad by itself.
struct LabelledExample {
  std::vector<ChatMessage> prompt;  // ends with the user, or with the answer of a tool
  std::vector<ChatMessage> answer;  // begins and ends with the assistant
  bool desirable = false;
  int line = 0;
  Value tools = {};  // as of an InstructExample
};

// The first form of the table, for `use` where it is given, whose keys the row has; null: none. An entry of
// tuning_row_forms().
const TuningRowForm* form_of_row(const Value& row, std::optional<TuningRowUse> use,
                                 std::span<const std::string> ignore = {});

// `ignore`: keys of rows and messages that count as not there. Errors (invalid_input) name the key and its place within
// the row.
Result<InstructExample> instruction_of_row(const Value& row, std::span<const std::string> ignore = {});
// Of what a ranked list becomes: each of its pairs has the whole prompt. More is refused.
inline constexpr std::size_t ranked_bytes_max = std::size_t{256} << 20;
// One pair, or those of a ranked list. `use`: preference, or reward.
Result<std::vector<PreferenceExample>> preferences_of_row(const Value& row, std::span<const std::string> ignore = {},
                                                          TuningRowUse use = TuningRowUse::preference);

// `category` of a row, or `subset`, as of a PreferenceExample; "" where it has neither.
Result<std::string> category_of_row(const Value& row, std::span<const std::string> ignore = {});

Result<LabelledExample> labelled_of_row(const Value& row, std::span<const std::string> ignore = {});

}  // namespace longhaul
