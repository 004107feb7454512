#include "base/yaml.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

Value yaml_value(const std::string& text) {
  Diagnostics diagnostics;
  Value value = parse_yaml(text, "t.yaml", diagnostics);
  CHECK_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
  return value;
}

// All errors, each as "line:column what".
std::string yaml_errors(const std::string& text) {
  Diagnostics diagnostics;
  (void)parse_yaml(text, "t.yaml", diagnostics);
  std::string all;
  for (const Error& error : diagnostics.errors()) {
    REQUIRE(error.where);
    CHECK(error.where->file.str() == "t.yaml");
    all += format("{}:{} {}\n", error.where->line, error.where->column, error.what);
  }
  return all;
}

}  // namespace

TEST_CASE("yaml: tables, lists, block scalars, quotes, anchors, with the places of keys and values") {
  const Value value = yaml_value(
      "# a comment\n"
      "task: one\n"
      "list: [a, 'b # c', \"d\\n\"]\n"
      "nested:\n"
      "  - metric: acc\n"
      "    yes: 3\n"
      "  - &again {metric: f1}\n"
      "  - *again\n"
      "kept: |\n"
      "  first\n"
      "    second\n"
      "\n"
      "folded: >-\n"
      "  one\n"
      "  two\n");
  CHECK(
      to_json(value) ==
      R"({"task":"one","list":["a","b # c","d\n"],"nested":[{"metric":"acc","yes":3},{"metric":"f1"},{"metric":"f1"}],)"
      R"("kept":"first\n  second\n","folded":"one two"})");
  CHECK(value.find("list")->pos.line == 3);
  CHECK(value.find("list")->pos.column == 7);
  const ValueMember& member = value.find("nested")->as_array()[0].as_table()[1];
  CHECK(member.key_pos.line == 6);
  CHECK(member.key_pos.column == 5);
  CHECK(yaml_value("").is_null());
}

TEST_CASE("yaml: plain scalars are what YAML 1.1 says, quoted ones are texts") {
  for (const auto& [text, json] : std::initializer_list<std::pair<const char*, const char*>>{
           {"12", "12"},         {"-7", "-7"},           {"+5", "5"},
           {"010", "8"},         {"08", "\"08\""},       {"0x1F", "31"},
           {"0b101", "5"},       {"1_000", "1000"},      {"1.5", "1.5"},
           {"1.", "1.0"},        {".5", "0.5"},          {"1.0e+3", "1000.0"},
           {"1e5", "\"1e5\""},   {"1.0e5", "\"1.0e5\""}, {"~", "null"},
           {"null", "null"},     {"yes", "true"},        {"Off", "false"},
           {"true", "true"},     {"tRUE", "\"tRUE\""},   {"'12'", "\"12\""},
           {"\"no\"", "\"no\""}, {"!!str 12", "\"12\""}, {"2024-01-02", "\"2024-01-02\""},
           {"a: b: c", nullptr}, {"-", nullptr},         {"1.2.3", "\"1.2.3\""}}) {
    CAPTURE(text);
    if (json == nullptr) continue;
    CHECK(to_json(yaml_value(std::string("v: ") + text)) == format("{{\"v\":{}}}", json));
  }
  CHECK(std::isinf(yaml_value("v: -.inf").find("v")->as_number()));
}

TEST_CASE("yaml: what is refused is named where it stands, all of it together") {
  CHECK(yaml_errors(
            "a: !function utils.process_docs\nb: 12:30\nc: 1\nc: 2\nd: 99999999999999999999\n<<: {e: 1}\nf: *g\n") ==
        "1:4 the tag !function (utils.process_docs) is not read\n"
        "2:4 12:30 is a number of base 60 in YAML 1.1\n"
        "4:1 'c' is given twice\n"
        "5:4 99999999999999999999 does not fit 64 bits\n"
        "6:1 the merge key << is not read\n"
        "7:4 *g names nothing that is whole before it\n");
  CHECK(yaml_errors("a: 1\n b: [\n") != "");
  CHECK(yaml_errors("a: [1, 2\nb: 3\n").find("2:2 no YAML: ") == 0);
  CHECK(yaml_errors("a: 1\n---\nb: 2\n") == "2:1 a second document begins here\n");
  CHECK(yaml_errors("[a]: 1\n") == "1:1 a key is no plain text\n");
  CHECK(yaml_errors("a: \xff\n").find("no YAML: ") != std::string::npos);
}

TEST_CASE("yaml: depth and what aliases repeat are bounded") {
  CHECK(yaml_errors("a: " + std::string(200, '[') + std::string(200, ']') + "\n").find("nested deeper") !=
        std::string::npos);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += format("{}*a{}", j > 0 ? ", " : "", i - 1);
    bomb += "]\n";
  }
  CHECK(yaml_errors(bomb).find("more than 100000 values") != std::string::npos);
}

}  // namespace longhaul
