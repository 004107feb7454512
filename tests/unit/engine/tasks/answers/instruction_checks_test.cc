// Instructions are judged as lm_eval's IFEval judges them (tests/parity/golden/tasks/judgements.json).
#include "engine/tasks/answers/instruction_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/tasks/answers/english_text.h"

namespace longhaul {
namespace {

Value row_of(const std::string& name, const Value& kwargs) {
  Value row = Value::make_table(), names = Value::make_array(), all = Value::make_array();
  names.push_back(name), all.push_back(kwargs);
  row.set("instruction_id_list", std::move(names));
  row.set("kwargs", std::move(all));
  return row;
}

bool follows(const std::string& name, const std::string& kwargs, const std::string& answer) {
  const auto checks = InstructionChecks::create(row_of(name, *parse_json(kwargs)));
  REQUIRE_MESSAGE(checks.ok(), checks.error().message());
  return checks->strict(answer).value().front();
}

bool needs_language(const std::string& name) {
  return name == "language:response_language" || name.starts_with("change_case:english");
}

}  // namespace

TEST_CASE("instructions: strict and loose verdicts are lm_eval's, of every kind but the count of sentences") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/tasks/judgements.json";
  const Value golden = *parse_json(read_file(path).value(), path);
  const ValueArray& answers = golden.find("answers")->as_array();
  std::set<std::string> kinds;
  int verdicts = 0;
  for (const Value& one : golden.find("ifeval")->as_array()) {
    const std::string name = one.get_string("name");
    CAPTURE(name);
    CAPTURE(to_json(*one.find("kwargs")));
#ifndef LONGHAUL_HAVE_CURATE
    if (needs_language(name)) continue;
#endif
    kinds.insert(name);
    const auto checks = InstructionChecks::create(row_of(name, *one.find("kwargs")));
    REQUIRE_MESSAGE(checks.ok(), checks.error().message());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::string& answer = answers[i].as_string();
      // What has no language is guessed otherwise by every program.
      if (needs_language(name) && answer.size() < 60) continue;
      CAPTURE(answer);
      CHECK(checks->strict(answer).value().front() == one.find("strict")->as_array()[i].as_bool());
      CHECK(checks->loose(answer).value().front() == one.find("loose")->as_array()[i].as_bool());
      verdicts += 2;
    }
  }
  CHECK(verdicts > 900);
  const std::vector<std::string> known = instruction_names();
  CHECK(known.size() == 25);
  for (const std::string& name : known)
    if (!needs_language(name) && name != "length_constraints:number_sentences") CHECK(kinds.contains(name));
}

TEST_CASE("instructions: sentences end at marks, not at abbreviations, initials and numbers") {
  CHECK(count_sentences("One. Two! Is it three? \"Four.\" (Five.) End") == 6);
  CHECK(count_sentences("Dr. A. Smith of the U.S. paid 3.5 dollars, e.g. for bread.") == 1);
  CHECK(count_sentences("See no. 5 and vol. 2 etc. in it... and so on. Wait... There is more!") == 3);
  CHECK(count_sentences("") == 0);
  CHECK(count_sentences(" \n ") == 0);
  CHECK(count_sentences("Line one\nline two") == 1);
  CHECK(follows("length_constraints:number_sentences", R"({"num_sentences": 3, "relation": "at least"})",
                "One is. Two is. End."));
  CHECK(!follows("length_constraints:number_sentences", R"({"num_sentences": 3, "relation": "less than"})",
                 "One is. Two is. End."));
}

TEST_CASE("instructions: words in capitals, and texts in one case, with letters beyond ASCII") {
  CHECK(count_capital_words("The CAT (and its WELL-KNOWN) A.B. isn't HERE, N2 but É is") == 6);
  CHECK(count_capital_words("DON'T 12 -- !") == 2);
  CHECK(is_upper_text("ÀB 12, ΣΑ"));
  CHECK(!is_upper_text("12"));
  CHECK(!is_upper_text("Ab"));
  CHECK(is_lower_text("straße é"));
  CHECK(!is_lower_text("漢字"));
}

TEST_CASE("instructions: what a row leaves out, or asks for and is not known, is named") {
  const auto error_of = [](const std::string& name, const std::string& kwargs) {
    const auto checks = InstructionChecks::create(row_of(name, *parse_json(kwargs)));
    return checks.ok() ? std::string() : checks.error().message();
  };
  CHECK(error_of("keywords:existense", "{}").find("did you mean 'keywords:existence'?") != std::string::npos);
  CHECK(error_of("keywords:existence", R"({"keywords": []})").find("needs a list of texts in kwargs.keywords") !=
        std::string::npos);
  CHECK(error_of("length_constraints:number_words", R"({"num_words": 3, "relation": "most"})")
            .find("\"at least\" or \"less than\" in kwargs.relation") != std::string::npos);
  CHECK(error_of("length_constraints:number_words", R"({"num_words": 2.5, "relation": "at least"})")
            .find("needs a whole number in kwargs.num_words") != std::string::npos);
  CHECK(error_of("keywords:existence", R"({"keywords": ["("]})").find("at offset") != std::string::npos);
  CHECK(error_of("keywords:letter_frequency", R"({"letter": "ab", "let_frequency": 1, "let_relation": "at least"})")
            .find("not one character") != std::string::npos);
  CHECK(
      !InstructionChecks::create(*parse_json(R"({"instruction_id_list": ["startend:quotation"], "kwargs": []})")).ok());
  CHECK(!InstructionChecks::create(*parse_json(R"({"prompt": "x"})")).ok());
  // A mark is counted, where lm_eval draws a letter.
  CHECK(follows("keywords:letter_frequency", R"({"letter": "!", "let_frequency": 2, "let_relation": "at least"})",
                "a! b!"));
}

}  // namespace longhaul
