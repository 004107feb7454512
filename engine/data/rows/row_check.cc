#include "engine/data/rows/row_check.h"

#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "base/value/json_lines.h"
#include "engine/data/samples/instruct_data.h"

namespace longhaul {
namespace {

constexpr std::int64_t rows_between_reports = 1'000;
constexpr std::int64_t any_length = std::numeric_limits<std::int32_t>::max();

// A text of at most `bytes`, cut between two characters.
std::string first_characters(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

class RowChecker {
 public:
  RowChecker(const RowCheckOptions& options, const ChatEncoder* encoder, const Tokenizer* tokenizer)
      : options_(options), encoder_(encoder), tokenizer_(tokenizer), form_rows_(tuning_row_forms().size()) {
    check_.use = options.use;
  }

  // A line that is refused is an error of its own; the rest of the file goes on.
  Status take(const JsonLine& at, const std::string& name) {
    const int line = at.number;
    LH_TRY(const Value object, parse_json_row(at, name));
    const TuningRowForm* form = form_of_row(object, check_.use, options_.ignore);
    // `align` reads pairs, and with kto labels: the first row says which.
    const bool first = check_.accepted + check_.refused == 0;
    if (const TuningRowForm* labels = form_of_row(object, TuningRowUse::labelled, options_.ignore);
        first && !form && check_.use == TuningRowUse::preference && labels)
      check_.use = TuningRowUse::labelled, form = labels;
    if (!check_.use && form) check_.use = form->use;
    if (check_.use == TuningRowUse::preference || check_.use == TuningRowUse::reward)
      LH_CHECK(take_preference(object, line, form));
    else if (check_.use == TuningRowUse::labelled)
      LH_CHECK(take_labelled(object, line, form));
    else
      LH_CHECK(take_instruction(object, line, form));
    ++check_.accepted;
    ++form_rows_[static_cast<std::size_t>(form - tuning_row_forms().data())];
    return {};
  }

  void refuse(int line, const Error& error) {
    ++check_.refused;
    if (check_.problems.size() < options_.problems_shown) check_.problems.push_back({line, error.what, error.hint});
  }

  RowCheck result(std::int64_t lines) {
    check_.lines = lines;
    for (std::size_t i = 0; i < form_rows_.size(); ++i) {
      if (form_rows_[i] == 0) continue;
      const std::string form = tuning_row_forms()[i].name;
      if (!check_.forms.empty() && check_.forms.back().form == form)  // spelled in two ways
        check_.forms.back().rows += form_rows_[i];
      else
        check_.forms.push_back({form, form_rows_[i]});
    }
    if (encoder_) check_.lengths = lengths();
    return std::move(check_);
  }

 private:
  Status take_instruction(const Value& row, int line, const TuningRowForm* form) {
    LH_TRY(const InstructExample example, instruction_of_row(row, options_.ignore));
    if (!encoder_) return {};
    LH_TRY(const TokenizedExamples made, tokenize_instructions({&example, 1}, *encoder_, any_length));
    measure(made.examples.front());
    if (check_.shown.size() < options_.rows_shown) show(made.examples.front(), line, *form, "");
    return {};
  }

  Status take_preference(const Value& row, int line, const TuningRowForm* form) {
    LH_TRY(const std::vector<PreferenceExample> pairs, preferences_of_row(row, options_.ignore, *check_.use));
    check_.pairs += static_cast<std::int64_t>(pairs.size());
    if (!encoder_) return {};
    const bool is_shown = check_.shown.size() < 2 * options_.rows_shown;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      LH_TRY(const TokenizedPreferences made, tokenize_preferences({&pairs[i], 1}, *encoder_, any_length));
      const PreferencePair& pair = made.pairs.front();
      measure(pair.chosen);
      measure(pair.rejected);
      if (!is_shown || i > 0) continue;
      show(pair.chosen, line, *form, "chosen");
      show(pair.rejected, line, *form, "rejected");
    }
    return {};
  }

  Status take_labelled(const Value& row, int line, const TuningRowForm* form) {
    LH_TRY(const LabelledExample example, labelled_of_row(row, options_.ignore));
    if (!encoder_) return {};
    LH_TRY(const TokenizedLabels made, tokenize_labelled({&example, 1}, *encoder_, any_length));
    const ChatTokens& answer = made.answers.front().tokens;
    measure(answer);
    if (check_.shown.size() < options_.rows_shown) show(answer, line, *form, example.desirable ? "good" : "bad");
    return {};
  }

  void measure(const ChatTokens& tokens) {
    lengths_.push_back(static_cast<std::int64_t>(tokens.ids.size()));
    trained_ += std::count(tokens.loss_mask.begin(), tokens.loss_mask.end(), std::uint8_t{1});
  }

  // Runs of tokens that are all trained on, or all not.
  void show(const ChatTokens& tokens, int line, const TuningRowForm& form, const char* answer) {
    ShownRow row{line, form.name, answer, static_cast<std::int64_t>(tokens.ids.size()), {}};
    for (std::size_t from = 0, to = 0; from < tokens.ids.size(); from = to) {
      while (to < tokens.ids.size() && tokens.loss_mask[to] == tokens.loss_mask[from]) ++to;
      const std::string text = tokenizer_->decode(std::span(tokens.ids).subspan(from, to - from));
      std::string first = first_characters(text, options_.shown_bytes_max);
      const auto left_out = static_cast<std::int64_t>(text.size() - first.size());
      row.parts.push_back({std::move(first), tokens.loss_mask[from] != 0, left_out});
    }
    check_.shown.push_back(std::move(row));
  }

  RowLengths lengths() {
    RowLengths out;
    out.trained = trained_;
    out.measured = static_cast<std::int64_t>(lengths_.size());
    if (lengths_.empty()) return out;
    std::sort(lengths_.begin(), lengths_.end());
    const auto at = [&](std::size_t percent) { return lengths_[(lengths_.size() - 1) * percent / 100]; };
    out.min = lengths_.front();
    out.median = at(50);
    out.p90 = at(90);
    out.p99 = at(99);
    out.max = lengths_.back();
    for (const std::int64_t length : lengths_) {
      out.tokens += length;
      out.too_long += options_.sequence_length > 0 && length > options_.sequence_length + 1;
    }
    return out;
  }

  const RowCheckOptions& options_;
  const ChatEncoder* encoder_;
  const Tokenizer* tokenizer_;
  std::vector<std::int64_t> form_rows_, lengths_;
  std::int64_t trained_ = 0;
  RowCheck check_;
};

const char* stage_that_trains(TuningRowUse use) {
  if (use == TuningRowUse::labelled) return "align, with method = \"kto\"";
  if (use == TuningRowUse::reward) return "reward";
  return use == TuningRowUse::preference ? "align" : "sft";
}

std::string lengths_text(const RowLengths& lengths, std::int64_t sequence_length) {
  std::string text = format(
      "tokens: {} in all, {} of them trained on; a row has {} to {}, median {}, 90 % up to {}, "
      "99 % up to {}\n",
      lengths.tokens, lengths.trained, lengths.min, lengths.max, lengths.median, lengths.p90, lengths.p99);
  if (sequence_length > 0)
    text += format("too long for sequence_length = {}: {} of {}, which would be left out\n", sequence_length,
                   lengths.too_long, lengths.measured);
  return text;
}

std::string shown_text(const ShownRow& row) {
  std::string text = format("\nline {}, {}{}{}, {} tokens:\n", row.line, row.form, row.answer.empty() ? "" : ", ",
                            row.answer, row.tokens);
  for (const ShownPart& part : row.parts) {
    text += part.trained ? "⟦" : "";
    text += part.text;
    if (part.bytes_left_out > 0) text += format(" … ({} bytes more)", part.bytes_left_out);
    text += part.trained ? "⟧" : "";
  }
  return text + "\n";
}

}  // namespace

Result<RowCheck> check_rows(std::string_view text, const std::string& name, const RowCheckOptions& options,
                            const ChatEncoder* encoder, const Tokenizer* tokenizer) {
  RowChecker checker(options, encoder, tokenizer);
  std::int64_t rows = 0;
  JsonLineReader lines(text);
  for (JsonLine line; lines.next(line);) {
    ++rows;
    if (const Status status = checker.take(line, name); !status.ok()) checker.refuse(line.number, status.error());
    if (options.progress && rows % rows_between_reports == 0)
      options.progress(rows, static_cast<double>(lines.position()) / static_cast<double>(text.size()));
  }
  return checker.result(rows);
}

std::string row_check_text(const RowCheck& check, const std::string& name, std::int64_t sequence_length) {
  std::string text =
      format("{}: {} rows, {} of them accepted, {} refused", name, check.lines, check.accepted, check.refused);
  if (check.use) text += format("; for stages of the kind {}", stage_that_trains(*check.use));
  text += "\n";
  for (const FormCount& form : check.forms) text += format("form {}: {} rows\n", form.form, form.rows);
  if (check.pairs > 0) text += format("pairs of answers: {}\n", check.pairs);
  if (check.lengths)
    text += lengths_text(*check.lengths, sequence_length);
  else
    text += "tokens: not counted, and no rows shown: give the model's folder with --model\n";
  if (!check.shown.empty()) text += "\nAs they will be trained; what is learnt stands between ⟦ and ⟧:\n";
  for (const ShownRow& row : check.shown) text += shown_text(row);
  if (!check.problems.empty()) text += "\nRefused:\n";
  for (const RowProblem& problem : check.problems) {
    text += format("{}:{}: {}\n", name, problem.line, problem.what);
    if (!problem.hint.empty()) text += "  " + problem.hint + "\n";
  }
  const auto hidden = check.refused - static_cast<std::int64_t>(check.problems.size());
  if (hidden > 0) text += format("and {} rows more\n", hidden);
  return text;
}

Value row_check_value(const RowCheck& check, const std::string& name) {
  Value out = Value::make_table();
  out.set("format", 1);
  out.set("file", "longhaul data check");
  out.set("data", name);
  out.set("stage", check.use ? Value(stage_that_trains(*check.use)) : Value());
  out.set("rows", check.lines);
  out.set("accepted", check.accepted);
  out.set("refused", check.refused);
  out.set("pairs", check.pairs);
  Value forms = Value::make_array(), problems = Value::make_array(), shown = Value::make_array(), lengths;
  for (const FormCount& form : check.forms) {
    Value one = Value::make_table();
    one.set("form", form.form);
    one.set("rows", form.rows);
    forms.push_back(std::move(one));
  }
  for (const RowProblem& problem : check.problems) {
    Value one = Value::make_table();
    one.set("line", problem.line);
    one.set("what", problem.what);
    one.set("hint", problem.hint);
    problems.push_back(std::move(one));
  }
  if (check.lengths) {
    lengths = Value::make_table();
    const RowLengths& l = *check.lengths;
    for (const auto& [key, number] : {std::pair{"measured", l.measured},
                                      {"min", l.min},
                                      {"median", l.median},
                                      {"p90", l.p90},
                                      {"p99", l.p99},
                                      {"max", l.max},
                                      {"tokens", l.tokens},
                                      {"trained", l.trained},
                                      {"too_long", l.too_long}})
      lengths.set(key, number);
  }
  for (const ShownRow& row : check.shown) {
    Value one = Value::make_table(), parts = Value::make_array();
    one.set("line", row.line);
    one.set("form", row.form);
    one.set("answer", row.answer);
    one.set("tokens", row.tokens);
    for (const ShownPart& part : row.parts) {
      Value piece = Value::make_table();
      piece.set("text", part.text);
      piece.set("trained", part.trained);
      piece.set("bytes_left_out", part.bytes_left_out);
      parts.push_back(std::move(piece));
    }
    one.set("parts", std::move(parts));
    shown.push_back(std::move(one));
  }
  out.set("forms", std::move(forms));
  out.set("lengths", std::move(lengths));
  out.set("problems", std::move(problems));
  out.set("shown", std::move(shown));
  return out;
}

}  // namespace longhaul
