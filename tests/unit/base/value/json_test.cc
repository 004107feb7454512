#include "base/value/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/digest/philox.h"

namespace longhaul {
namespace {

std::string random_json_string(PhiloxSequence& random) {
  static const char* const pieces[] = {"a", "\"",  "\\",  "\n", "\t", "\x01", "/", "é", "日本", "\xF0\x9F\x9A\x82",
                                       " ", "key", "\x7f"};
  std::string text;
  for (std::uint64_t n = random.next_below(6); n > 0; --n) text += pieces[random.next_below(std::size(pieces))];
  return text;
}

Value random_json(PhiloxSequence& random, int depth) {
  switch (random.next_below(depth > 0 ? 7 : 5)) {
    case 0: return {};
    case 1: return random.next_below(2) == 0;
    case 2: return static_cast<long long>(random.next_u64());
    case 3: return (random.next_uniform() - 0.5) * std::pow(10.0, static_cast<double>(random.next_below(600)) - 300.0);
    case 4: return random_json_string(random);
    case 5: {
      Value list = Value::make_array();
      for (std::uint64_t n = random.next_below(5); n > 0; --n) list.push_back(random_json(random, depth - 1));
      return list;
    }
    default: {
      Value table = Value::make_table();
      for (std::uint64_t n = random.next_below(5); n > 0; --n)
        table.set(random_json_string(random), random_json(random, depth - 1));
      return table;
    }
  }
}

std::string nested_arrays(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
}

}  // namespace

TEST_CASE("what is written as JSON reads back equal, compact and pretty") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const Value value = random_json(random, 5);
    const std::string compact = to_json(value);
    CAPTURE(compact);
    CHECK(compact.find('\n') == std::string::npos);
    CHECK(parse_json(compact).value() == value);
    CHECK(parse_json(to_json_pretty(value)).value() == value);
  }
}

TEST_CASE("mutilated JSON gives a value or one error with its place, and never more") {
  PhiloxSequence tree(7);
  Value value = Value::make_table();
  for (int i = 0; i < 20; ++i) value.set("key" + std::to_string(i), random_json(tree, 3));
  const std::string whole = to_json(value);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed, 1);
    std::string text = whole.substr(0, random.next_below(whole.size() + 1));
    for (int i = 0; i < 3 && !text.empty(); ++i)
      text[random.next_below(text.size())] = static_cast<char>(random.next_below(256));
    const auto parsed = parse_json(text, "broken.json");
    if (parsed.ok()) {
      CHECK(parse_json(to_json(*parsed)).ok());
    } else {
      CHECK(parsed.error().code == ErrorCode::corrupt);
      CHECK(parsed.error().message().starts_with("broken.json: not valid JSON"));
    }
  }
}

TEST_CASE("bad JSON is refused") {
  for (const std::string text : {"", "   ", "{", "[1,]", "{\"a\":}", "{\"a\" 1}", "nul", "1 2", "{} x", "\"\\q\"",
                                 "\"\xC3\"", "[1", "NaN", "1e999", "'a'", "{a:1}", "01", "\"a\nb\""}) {
    CAPTURE(text);
    CHECK_FALSE(parse_json(text).ok());
  }
}

TEST_CASE("nesting is limited before the stack is at risk") {
  CHECK(parse_json(nested_arrays(512)).ok());
  const auto deeper = parse_json(nested_arrays(513));
  REQUIRE_FALSE(deeper.ok());
  CHECK(deeper.error().what.find("deeper than 512") != std::string::npos);
  CHECK(deeper.error().what.find("byte 0") == std::string::npos);  // no place is better than a wrong one
  CHECK_FALSE(parse_json(std::string(1'000'000, '[')).ok());
}

TEST_CASE("of duplicate keys the last one wins and keeps its place in the order") {
  const Value value = parse_json(R"({"a":1,"b":2,"a":3,"c":4,"a":5})").value();
  CHECK(to_json(value) == R"({"b":2,"c":4,"a":5})");
}

TEST_CASE("numbers keep their kind, and what does not fit becomes a number") {
  CHECK(parse_json("9223372036854775807").value().as_integer() == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_json("-9223372036854775808").value().as_integer() == std::numeric_limits<std::int64_t>::min());
  CHECK(parse_json("9223372036854775808").value().kind() == Value::Kind::number);
  CHECK(parse_json("1.0").value().kind() == Value::Kind::number);
  CHECK(to_json(Value(1.0)) == "1.0");
  CHECK(to_json(Value(0.1)) == "0.1");
  CHECK(to_json(Value(std::numeric_limits<double>::infinity())) == "null");
  CHECK(to_json(Value(std::nan(""))) == "null");
}

TEST_CASE("invalid bytes never reach the written text") {
  CHECK(to_json(Value("a\xFFz")) == "\"a\xEF\xBF\xBDz\"");
  Value table;
  table.set("\xFF", 1);
  CHECK(parse_json(to_json(table)).ok());
}

}  // namespace longhaul
