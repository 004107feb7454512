#include "base/toml.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

const char* const toml_sample = R"(# a workflow
title = "x"

[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }
sizes = [1, 2.5]
)";

// Scalars before tables, as the writer orders them: then the order reads back as well.
Value random_toml_table(PhiloxSequence& random, int depth);

Value random_toml_scalar(PhiloxSequence& random) {
  switch (random.next_below(4)) {
    case 0: return random.next_below(2) == 0;
    case 1: return static_cast<long long>(random.next_u64());
    case 2: return (random.next_uniform() - 0.5) * std::pow(10.0, static_cast<double>(random.next_below(40)) - 20.0);
    default: {
      static const char* const pieces[] = {
          "a", "\"", "\\", "\n", "\r", "\t", "\x01", "\x7f", "'", "#", "é", "日", "\xF0\x9F\x9A\x82", "${params.x}"};
      std::string text;
      for (std::uint64_t n = random.next_below(6); n > 0; --n) text += pieces[random.next_below(std::size(pieces))];
      return text;
    }
  }
}

std::string random_toml_key(PhiloxSequence& random, std::uint64_t index) {
  static const char* const shapes[] = {"key", "a.b", "with space", "quo\"te", "é", "1", "-"};
  return shapes[random.next_below(std::size(shapes))] + std::to_string(index);
}

Value random_toml_table(PhiloxSequence& random, int depth) {
  Value table = Value::make_table();
  std::uint64_t index = 0;
  for (std::uint64_t n = random.next_below(4); n > 0; --n)
    table.set(random_toml_key(random, index++), random_toml_scalar(random));
  if (random.next_below(2) == 0) {
    Value list = Value::make_array();
    for (std::uint64_t n = random.next_below(4); n > 0; --n)
      list.push_back(depth > 0 && random.next_below(2) == 0 ? random_toml_table(random, 0)
                                                            : random_toml_scalar(random));
    table.set(random_toml_key(random, index++), std::move(list));
  }
  if (depth > 0)
    for (std::uint64_t n = random.next_below(3); n > 0; --n)
      table.set(random_toml_key(random, index++), random_toml_table(random, depth - 1));
  return table;
}

}  // namespace

TEST_CASE("keys and values know where they stood") {
  const Value root = parse_toml(toml_sample, "wf.toml").value();
  CHECK(root.find("title")->pos == SourcePos{"wf.toml", 2, 9});
  const Value& tokens = *root.find("stage")->find("tokens");
  REQUIRE(tokens.size() == 3);
  CHECK(tokens.as_table()[0].key == "kind");  // the order written, not the alphabet's
  CHECK(tokens.as_table()[0].key_pos == SourcePos{"wf.toml", 5, 1});
  CHECK(tokens.as_table()[0].value.pos == SourcePos{"wf.toml", 5, 8});
  CHECK(tokens.as_table()[1].key == "inputs");
  CHECK(tokens.find("inputs")->find("corpus")->pos == SourcePos{"wf.toml", 6, 21});
  CHECK(tokens.find("sizes")->as_array()[1].pos == SourcePos{"wf.toml", 7, 13});
  CHECK(root.find("stage")->pos.line == 4);
}

TEST_CASE("a syntax error says where") {
  const auto broken = parse_toml("a = 1\nb = \n", "wf.toml");
  REQUIRE_FALSE(broken.ok());
  CHECK(broken.error().code == ErrorCode::invalid_input);
  REQUIRE(broken.error().where);
  CHECK(broken.error().where->file.str() == "wf.toml");
  CHECK(broken.error().where->line == 2);
  const auto twice = parse_toml("a = 1\n\na = 2\n", "wf.toml");
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().where->line == 3);
  for (const char* text :
       {"a", "= 1", "[a", "a = [1", "a = \"x", "a = 1 b = 2", "a = 0x", "[a]\n[a]\n", "a = \"\xFF\""}) {
    CAPTURE(text);
    CHECK_FALSE(parse_toml(text, "wf.toml").ok());
  }
}

TEST_CASE("a file that is missing is an error with its path") {
  const testing::Scratch scratch;
  const auto absent = read_toml_file(scratch.file("none.toml"));
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().code == ErrorCode::not_found);
  CHECK(absent.error().what.find("none.toml") != std::string::npos);
}

TEST_CASE("what is written as TOML reads back equal") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const Value value = random_toml_table(random, 3);
    const std::string text = to_toml(value);
    CAPTURE(text);
    const auto back = parse_toml(text, "t.toml");
    if (!back.ok()) CAPTURE(back.error().message());
    REQUIRE(back.ok());
    CHECK(*back == value);
  }
}

TEST_CASE("values that TOML writes in a special way") {
  Value value;
  value.set("whole", 3.0);
  value.set("none", Value());
  value.set("inf", -HUGE_VAL);
  value.set("tenth", 0.1);
  CHECK(to_toml(value) == "whole = 3.0\ninf = -inf\ntenth = 0.1\n");
  value.set("bytes", "a\xFFz");  // TOML is UTF-8: an invalid byte may not make the file unreadable
  CHECK(parse_toml(to_toml(value), "t.toml").value().get_string("bytes") == "a\xEF\xBF\xBDz");
  CHECK(parse_toml("day = 2026-03-02\n", "t.toml").value().get_string("day") == "2026-03-02");
}

}  // namespace longhaul
