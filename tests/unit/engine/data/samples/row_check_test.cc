// What `longhaul data check` says of a file: forms, counts, lengths, refusals by line, and rows as they are trained.
#include "engine/data/rows/row_check.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/samples/instruct_data.h"

using namespace longhaul;

namespace {

struct SmallModel {
  Tokenizer tokenizer = Tokenizer::parse(to_json(*parse_json(read_file(std::string(LONGHAUL_SOURCE_DIR) +
                                                                       "/tests/parity/golden/reference_tokenizer.json")
                                                                 .value())
                                                      .value()
                                                      .find("tokenizer")))
                            .value();
  ChatEncoder encoder = ChatEncoder::create(tokenizer).value();

  RowCheck check(std::string_view text, const RowCheckOptions& options = {}) const {
    return check_rows(text, "x.jsonl", options, &encoder, &tokenizer).value();
  }
};

const std::string mixed =
    R"({"input": "2+2?", "output": "4"}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "no", "weight": 0}, )"
    R"({"role": "user", "content": "b"}, {"role": "assistant", "content": "yes"}]}

{"text": "as it stands"}
{"question": "q", "answer": "a", "id": 7}
not JSON
{"prompt": "a", "chosen": "b", "rejected": "c"}
{"instruction": "i", "output": "o"}
{"instruction": "i", "response": "o"}
)";

}  // namespace

TEST_CASE("data check: forms, counts, lengths and refusals of a mixed file") {
  const SmallModel model;
  RowCheckOptions options;
  options.sequence_length = 8;
  const RowCheck check = model.check(mixed, options);
  CHECK(check.lines == 8);
  CHECK(check.accepted == 5);
  CHECK(check.refused == 3);
  CHECK((check.use == TuningRowUse::instruction));
  REQUIRE(check.forms.size() == 4);
  CHECK(check.forms[0].form == "messages");
  CHECK(check.forms[1].form == "Alpaca");
  CHECK(check.forms[1].rows == 2);
  REQUIRE(check.problems.size() == 3);
  CHECK(check.problems[0].line == 5);
  CHECK(check.problems[0].what.find("'id' is no key of the form question/answer") != std::string::npos);
  CHECK(check.problems[0].hint == "to train without it: ignore = [\"id\"]");
  CHECK(check.problems[1].line == 6);
  CHECK(check.problems[2].what.find("of the form pair, which compares answers") != std::string::npos);
  REQUIRE(check.lengths);
  CHECK(check.lengths->measured == 5);
  CHECK(check.lengths->min <= check.lengths->median);
  CHECK(check.lengths->median <= check.lengths->max);
  CHECK(check.lengths->too_long > 0);
  CHECK(check.lengths->trained < check.lengths->tokens);
  options.ignore = {"id"};
  CHECK(model.check(mixed, options).accepted == 6);
}

TEST_CASE("data check: the first rows are shown as they are trained, with what is learnt marked") {
  const SmallModel model;
  const RowCheck check = model.check(mixed);
  REQUIRE(check.shown.size() == 3);
  const std::string text = row_check_text(check, "x.jsonl", 0);
  CAPTURE(text);
  CHECK(text.find("line 1, input/output") != std::string::npos);
  CHECK(text.find("<|user|>2+2?<|end|><|assistant|>⟦4<|end|>⟧") != std::string::npos);
  CHECK(text.find("<|assistant|>no<|end|><|user|>b<|end|><|assistant|>⟦yes<|end|>⟧") != std::string::npos);
  CHECK(text.find("⟦as it stands<|endoftext|>⟧") != std::string::npos);
  CHECK(text.find("x.jsonl:5: 'id' is no key") != std::string::npos);
  const Value value = row_check_value(check, "x.jsonl");
  CHECK(value.find("shown")->as_array()[0].find("parts")->as_array()[1].get_string("text") == "4<|end|>");
  CHECK(value.find("shown")->as_array()[0].find("parts")->as_array()[1].get_bool("trained"));
  CHECK(value.get_integer("refused") == 3);
}

TEST_CASE("data check: pairs show both answers; what the lengths sum is what a training reads") {
  const SmallModel model;
  const std::string rows = R"({"prompt": "a", "responses": ["x", "y", "z"], "ranks": [2, 1, 3]}
{"prompt": "a", "chosen": "b", "rejected": "c"}
)";
  const RowCheck check = model.check(rows);
  CHECK((check.use == TuningRowUse::preference));
  CHECK(check.pairs == 4);
  REQUIRE(check.shown.size() == 4);
  CHECK(check.shown[0].answer == "chosen");
  CHECK(check.shown[0].parts[1].text == "x<|end|>");
  CHECK(check.shown[1].parts[1].text == "z<|end|>");
  const auto pairs = tokenize_preferences(parse_preferences(rows, "x").value(), model.encoder, 4096).value();
  std::int64_t tokens = 0;
  for (const PreferencePair& pair : pairs.pairs)
    tokens += static_cast<std::int64_t>(pair.chosen.ids.size() + pair.rejected.ids.size());
  CHECK(check.lengths->tokens == tokens);
}

TEST_CASE("data check: without a model neither lengths nor rows are made up") {
  const RowCheck check = check_rows(mixed, "x.jsonl", {}, nullptr, nullptr).value();
  CHECK(check.accepted == 5);
  CHECK_FALSE(check.lengths);
  CHECK(check.shown.empty());
  CHECK(row_check_text(check, "x.jsonl", 0).find("--model") != std::string::npos);
}

TEST_CASE("a long text is shown by its beginning, cut between two characters") {
  const SmallModel model;
  RowCheckOptions options;
  options.shown_bytes_max = 10;
  const RowCheck check = model.check(R"({"text": "123456789é and more"})", options);
  CHECK(check.shown[0].parts[0].text == "123456789");
  CHECK(check.shown[0].parts[0].bytes_left_out > 10);
}

TEST_CASE("bad input: a row of 100 MB is named by its line and not read; the others are") {
  std::string text = R"({"text": ")" + std::string(100'000'000, '[') + "\"}\n" + R"({"text": "b"})" + "\n";
  const RowCheck check = check_rows(text, "x.jsonl", {}, nullptr, nullptr).value();
  CHECK(check.accepted == 1);
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems[0].line == 1);
  CHECK(check.problems[0].what == "the row has 100000012 bytes, more than 16 MiB: it was not read");
  const auto read = parse_instructions(text, "x.jsonl");
  REQUIRE_FALSE(read.ok());
  const std::string message = read.error().message();
  CAPTURE(message);
  CHECK(message.find("x.jsonl:1") != std::string::npos);
  CHECK(message.find("the row has 100000012 bytes") != std::string::npos);
}

TEST_CASE("bad input: ranked answers whose pairs would fill the memory are refused") {
  std::string answers, ranks;
  for (int i = 0; i < 64; ++i) {
    answers += format("{}\"a{}\"", i > 0 ? "," : "", i);
    ranks += format("{}{}", i > 0 ? "," : "", i);
  }
  const std::string row = format(R"({{"prompt": "{}", "responses": [{}], "ranks": [{}]}})",
                                 std::string(ranked_bytes_max / 2016 + 1, 'p'), answers, ranks);
  const RowCheck check = check_rows(row, "x.jsonl", {}, nullptr, nullptr).value();
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems[0].what == "its 64 answers would become pairs with more than 256 MiB of prompts");
}
