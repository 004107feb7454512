// Room engine/data/rows
// What `longhaul data check` says of a file of tuning data: forms, counts, lengths, the first rows as they are trained.
// It reads rows by the same code as a training (engine/data/samples) and trains nothing.
// rated_rows.h reads what reward models learn from beside pairs; step_places.h finds steps in the tokens of an answer.
//
// What a file of tuning data is, before anything is trained on it: forms, counts, lengths in tokens, what is refused
// and why, and the first rows as they will be trained. The file is read line by line; beside it only the lengths are
// kept, eight bytes a row.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/stages/tuning_row_form.h"
#include "engine/data/template/chat.h"

namespace longhaul {

struct RowCheckOptions {
  std::vector<std::string> ignore;      // keys that count as not there, as the stage's setting of this name
  std::optional<TuningRowUse> use;      // nothing: that of the first row that has a form
  std::int64_t sequence_length = 0;     // longer rows are counted; 0: none is
  std::size_t rows_shown = 3;           // as they will be trained
  std::size_t problems_shown = 20;      // all are counted
  std::size_t shown_bytes_max = 2'000;  // of each part of a row that is shown
  // After every so many rows, with the share of the file that was read; may be empty.
  std::function<void(std::int64_t rows, double share)> progress;
};

struct FormCount {
  std::string form;
  std::int64_t rows = 0;
};
struct RowProblem {
  int line = 0;
  std::string what, hint;
};
// Of conversations in tokens: of a pair both its answers are measured, each with the prompt.
struct RowLengths {
  std::int64_t measured = 0, min = 0, median = 0, p90 = 0, p99 = 0, max = 0;
  std::int64_t tokens = 0, trained = 0;  // of all; trained: those in the loss
  std::int64_t too_long = 0;             // with more than sequence_length + 1 tokens
};
struct ShownPart {
  std::string text;
  bool trained = false;
  std::int64_t bytes_left_out = 0;  // behind `text`
};
struct ShownRow {
  int line = 0;
  std::string form, answer;  // "chosen" or "rejected" of a pair, "good" or "bad" by a label, otherwise ""
  std::int64_t tokens = 0;
  std::vector<ShownPart> parts;
};

struct RowCheck {
  std::optional<TuningRowUse> use;  // nothing: no row has a form
  std::int64_t lines = 0;           // that are not blank
  std::int64_t accepted = 0;        // rows
  std::int64_t pairs = 0;           // that preferences become
  std::int64_t refused = 0;
  std::vector<FormCount> forms;  // of accepted rows, in the order of the table
  std::vector<RowProblem> problems;
  std::optional<RowLengths> lengths;  // where there is an encoder
  std::vector<ShownRow> shown;
};

// `encoder` and `tokenizer`: those of the model that is trained, or both null: then neither lengths nor rows are shown.
// Rows that are refused are counted and named; errors are those of the encoder.
Result<RowCheck> check_rows(std::string_view text, const std::string& name, const RowCheckOptions& options,
                            const ChatEncoder* encoder, const Tokenizer* tokenizer);

// For people: what is trained on stands between ⟦ and ⟧.
std::string row_check_text(const RowCheck& check, const std::string& name, std::int64_t sequence_length);
Value row_check_value(const RowCheck& check, const std::string& name);

}  // namespace longhaul
