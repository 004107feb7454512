// What reward models learn from beside pairs: values of attributes and labels of steps, and where steps end in tokens.
#include "engine/data/rows/rated_rows.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/rows/step_places.h"

using namespace longhaul;

namespace {

RewardForm attributes_form() {
  RewardForm form;
  form.method = "attributes";
  form.attributes = {{"helpfulness", 1, 0, 4}, {"verbosity", -0.5, 0, 4}};
  return form;
}
RewardForm process_form() {
  RewardForm form;
  form.method = "process", form.step_separator = "\n";
  return form;
}
std::string refused_rows(const std::string& rows, const RewardForm& form, std::vector<std::string> ignore = {}) {
  const auto read = parse_rated(rows, "rows.jsonl", form, ignore, true);
  return read.ok() ? "" : read.error().message();
}
void append_tokens(const Tokenizer& tokenizer, const std::string& text, std::vector<std::int32_t>& ids) {
  const std::vector<std::int32_t> more = tokenizer.encode(text).value();
  ids.insert(ids.end(), more.begin(), more.end());
}
bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("rows with attributes: values by their names, and none where a row has none") {
  const auto rows = parse_rated(R"({"prompt": "a?", "response": "b", "helpfulness": 3, "verbosity": 0.5}
{"prompt": [{"role": "user", "content": "c?"}], "response": "d", "system": "Be brief.", "verbosity": 4, "helpfulness": null}
)",
                                "rows.jsonl", attributes_form(), {}, true)
                        .value();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].values == std::vector<double>{3, 0.5});
  CHECK(rows[0].line == 1);
  CHECK(rows[0].answer == std::vector<ChatMessage>{{"assistant", "b"}});
  CHECK(std::isnan(rows[1].values[0]));
  CHECK(rows[1].values[1] == 4);
  CHECK(rows[1].prompt.front() == ChatMessage{"system", "Be brief."});
  // Rows that are only to be labelled have no value at all.
  const std::string plain = R"({"prompt": "a?", "response": "b"})";
  CHECK(mentions(refused_rows(plain, attributes_form()), "a value of no attribute"));
  CHECK(parse_rated(plain, "rows.jsonl", attributes_form(), {}, false).ok());
}

TEST_CASE("rows with attributes that make no sense are named by their lines") {
  const std::string row = R"({"prompt": "a?", "response": "b", )";
  const std::string text =
      refused_rows(row + "\"helpfulness\": 5}\n" + row + "\"verbosity\": -1}\n" + row + "\"helpfulness\": \"good\"}\n" +
                       row + "\"quality\": 3, \"verbosity\": 1}\n" + R"({"prompt": "a?", "helpfulness": 1})" + "\n" +
                       row + "\"verbosity\": 1}\n",
                   attributes_form());
  for (const char* part : {"rows.jsonl:1", "'helpfulness' is 5, expected a number from 0 to 4", "rows.jsonl:2",
                           "'verbosity' is -1", "rows.jsonl:3", "'helpfulness' is string", "rows.jsonl:4",
                           "'quality' is no key", "rows.jsonl:5", "'response' is missing"})
    CHECK_MESSAGE(mentions(text, part), text);
  CHECK_FALSE(mentions(text, "rows.jsonl:6"));
  CHECK(refused_rows(row + "\"quality\": 3, \"verbosity\": 1}", attributes_form(), {"quality"}).empty());
}

TEST_CASE("rows in steps: a label for each, or the first wrong one") {
  const auto rows = parse_rated(R"({"prompt": "1+1+1?", "completions": ["1+1=2", "2+1=3"], "labels": [true, 0.25]}
{"prompt": "1+1+1?", "completions": ["1+1=2", "2+1=4", "so 4"], "labels": [1, false, null], "category": "sums"}
{"problem": "1+1+1?", "steps": ["1+1=2", "2+1=4", "so 4"], "label": 1}
{"prompt": "1+1+1?", "steps": ["1+1=2", "2+1=3"], "label": -1}
)",
                                "rows.jsonl", process_form(), {}, true)
                        .value();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].values == std::vector<double>{1, 0.25});
  CHECK(rows[0].answer.front().content == "1+1=2\n2+1=3");
  CHECK(rows[1].values[0] == 1);
  CHECK(rows[1].values[1] == 0);
  CHECK(std::isnan(rows[1].values[2]));
  CHECK(rows[1].category == "sums");
  CHECK(rows[2].values[0] == 1);
  CHECK(rows[2].values[1] == 0);
  CHECK(std::isnan(rows[2].values[2]));
  CHECK(rows[3].values == std::vector<double>{1, 1});
}

TEST_CASE("rows in steps that make no sense are named by their lines") {
  const auto row = [](const char* rest) { return format("{{\"prompt\": \"a?\", {}}}\n", rest); };
  const std::string text = refused_rows(
      row(R"("completions": ["b", "c"], "labels": [true])") + row(R"("completions": ["b", "c"], "labels": [true, 2])") +
          row(R"("completions": ["b", "c"], "labels": [null, null])") +
          row(R"("completions": ["b", " "], "labels": [true, true])") +
          row(R"("completions": ["b\nc"], "labels": [true])") + row(R"("completions": [], "labels": [])") +
          row(R"("steps": ["b", "c"], "label": 2)") + row(R"("steps": ["b", "c"], "label": -2)") +
          row(R"("completions": ["b", "c"])") + row(R"("completions": ["b"], "labels": ["yes"])"),
      process_form());
  for (const char* part : {"rows.jsonl:1",  "'labels' has 1 entries, and there are 2 steps",
                           "rows.jsonl:2",  "labels[1] is 2",
                           "rows.jsonl:3",  "none of its steps has a label",
                           "rows.jsonl:4",  "completions[1] is empty",
                           "rows.jsonl:5",  "completions[0] holds step_separator",
                           "rows.jsonl:6",  "'completions' is no list of steps",
                           "rows.jsonl:7",  "'label' is 2, expected the number of the first wrong step",
                           "rows.jsonl:8",  "'label' is -2",
                           "rows.jsonl:9",  "'labels' is missing",
                           "rows.jsonl:10", "labels[0] is string"})
    CHECK_MESSAGE(mentions(text, part), text);
}

TEST_CASE("steps end at the token with the last byte of the separator, the last one at the end of the answer") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/reference_tokenizer.json";
  const Tokenizer tokenizer =
      Tokenizer::parse(to_json(*parse_json(read_file(path).value()).value().find("tokenizer"))).value();
  const std::string prompt = "one\n\ntwo?";  // separators of the prompt are none of the answer
  for (const char* separator : {"\n", "\n\n", " ->", ";"}) {
    CAPTURE(separator);
    const std::vector<std::string> steps = {"1 + 1 = 2", "2 + 1 = 3", "so it is 3"};
    std::vector<std::int32_t> ids = tokenizer.encode(prompt).value();
    const std::size_t begin = ids.size();
    append_tokens(tokenizer, join(steps, separator), ids);
    const std::vector<std::size_t> places = step_places(tokenizer, ids, begin, separator);
    REQUIRE(places.size() == 3);
    CHECK(places[2] == ids.size() - 1);
    std::string read;
    for (std::size_t i = 0; i < 2; ++i) {
      read += (i > 0 ? separator : "") + steps[i];
      const auto upto = [&](std::size_t tokens) { return tokenizer.decode(std::span(ids).subspan(begin, tokens)); };
      CHECK(upto(places[i] - begin + 1).size() >= (read + separator).size());
      CHECK(upto(places[i] - begin).size() < (read + separator).size());
    }
    // A separator at the end begins no other step, and several behind each other none between them.
    std::vector<std::int32_t> more = ids;
    append_tokens(tokenizer, format("{}{} ", separator, separator), more);
    CHECK(step_places(tokenizer, more, begin, separator).size() == 3);
  }
  const std::vector<std::int32_t> one = tokenizer.encode("done").value();
  CHECK(step_places(tokenizer, one, 0, "\n") == std::vector<std::size_t>{one.size() - 1});
  RewardForm pairs;
  CHECK(asked_places(pairs, tokenizer, one, 0) == std::vector<std::size_t>{one.size() - 1});
}

TEST_CASE("a judged text ends with its answer, and begins where the last turn of the assistant does") {
  const JudgedTokens judged = judged_tokens({{1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 1, 0, 0, 1, 1, 0}});
  CHECK(judged.ids == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(judged.answer_begin == 5);
}
