// 200 random rows of every form: tokens, and which of them are trained on, are those of transformers
// (tests/parity/make_row_golden.py).
#include <doctest/doctest.h>

#include <map>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/tuning_row_form.h"
#include "engine/data/samples/instruct_data.h"

using namespace longhaul;

namespace {

const std::string golden = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/";

std::string trained_spans(const ChatTokens& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool here = tokens.loss_mask[i] != 0, before = i > 0 && tokens.loss_mask[i - 1] != 0;
    if (here && !before) text += format("[{},", i);
    if (here && (i + 1 == tokens.ids.size() || tokens.loss_mask[i + 1] == 0)) text += format("{}]", i + 1);
  }
  return text;
}

// As one line, so that a difference is seen: how many tokens, which, and the trained spans.
std::string of_tokens(const ChatTokens& tokens) {
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.ids.data()), tokens.ids.size() * 4);
  return format("{} {:016x} {}", tokens.ids.size(), xxh3_64(bytes), trained_spans(tokens));
}

std::string of_golden(const Value& one) {
  std::string spans;
  for (const Value& span : one.find("trained")->as_array())
    spans += format("[{},{}]", span.as_array()[0].as_integer(), span.as_array()[1].as_integer());
  return format("{} {} {}", one.get_integer("tokens"), one.get_string("ids"), spans);
}

std::vector<std::string> becomes(const Value& one, const ChatEncoder& encoder) {
  std::vector<std::string> made;
  if (one.get_string("use") == "preference") {
    const auto pairs = preferences_of_row(*one.find("row"));
    REQUIRE_MESSAGE(pairs.ok(), pairs.error().message());
    const auto tokens = tokenize_preferences(*pairs, encoder, 4096).value();
    for (const PreferencePair& pair : tokens.pairs) {
      made.push_back(of_tokens(pair.chosen));
      made.push_back(of_tokens(pair.rejected));
    }
    return made;
  }
  const auto example = instruction_of_row(*one.find("row"));
  REQUIRE_MESSAGE(example.ok(), example.error().message());
  made.push_back(of_tokens(tokenize_instructions({&*example, 1}, encoder, 4096).value().examples.front()));
  return made;
}

}  // namespace

TEST_CASE("rows of every form: tokens and what is trained on are those of transformers") {
  const std::string path = golden + "reference_tokenizer.json";
  const Tokenizer tokenizer =
      Tokenizer::parse(to_json(*parse_json(read_file(path).value()).value().find("tokenizer"))).value();
  const ChatEncoder encoder = ChatEncoder::create(tokenizer).value();
  std::map<std::string, int> rows;
  int line = 0;
  for (const std::string& text : split(read_file(golden + "rows.jsonl").value(), '\n')) {
    if (text.empty()) continue;
    const Value one = parse_json(text, "rows.jsonl").value();
    if (++line == 1) {
      CHECK(one.get_string("chat_template") == chat_template_jinja());
      continue;
    }
    CAPTURE(text);
    const std::vector<std::string> made = becomes(one, encoder);
    const auto& expected = one.find("becomes")->as_array();
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == of_golden(expected[i]));
    ++rows[one.get_string("form")];
  }
  // Answers with a label, with values or in steps are made into tokens as an answer of a pair is.
  for (const TuningRowForm& form : tuning_row_forms())
    if (form.use == TuningRowUse::instruction || form.use == TuningRowUse::preference)
      CHECK_MESSAGE(rows[form.name] >= 200, form.name);
}
