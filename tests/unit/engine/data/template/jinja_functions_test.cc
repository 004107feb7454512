// What templates find without being given it: range and its like, and `loop`.
#include "engine/data/jinja/jinja_functions.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

Result<JinjaValue> range(std::initializer_list<std::int64_t> numbers) {
  JinjaArguments arguments;
  for (const std::int64_t number : numbers) arguments.positional.push_back(JinjaValue::of(number));
  const JinjaTable functions = jinja_functions(std::nullopt);
  return functions.find("range")->as_function().call(arguments);
}

std::string as_text(const Result<JinjaValue>& value) {
  return jinja_str(value.value()).value();
}

}  // namespace

TEST_CASE("jinja functions: range counts as in Python, ends at the ends of 64 bits, and refuses what has no end") {
  CHECK(as_text(range({3})) == "[0, 1, 2]");
  CHECK(as_text(range({5, 1, -2})) == "[5, 3]");
  CHECK(as_text(range({INT64_MAX - 1, INT64_MAX, 5})) == "[9223372036854775806]");
  CHECK(range({0, 3, 0}).error().what == "the step of a range is 0");
  CHECK(range({100'000}).ok());
  CHECK_FALSE(range({100'001}).ok());
  CHECK_FALSE(range({}).ok());
}

TEST_CASE("jinja functions: the time of day is there only where it is given") {
  CHECK(jinja_functions(std::nullopt).find("strftime_now") == nullptr);
  std::tm at{};
  at.tm_year = 126;
  at.tm_mon = 10;
  at.tm_mday = 28;
  const JinjaTable functions = jinja_functions(at);
  const JinjaArguments form{{JinjaValue::of(std::string("%Y-%m-%d"))}, {}};
  CHECK(as_text(functions.find("strftime_now")->as_function().call(form)) == "2026-11-28");
}

TEST_CASE("jinja functions: loop counts from both ends and knows the neighbours of its turn") {
  const JinjaList items{JinjaValue::of(std::string("a")), JinjaValue::of(std::string("b"))};
  const JinjaTable last = jinja_loop(items, 1, 2);
  const auto text = [&](const char* name) { return jinja_str(*last.find(name)).value(); };
  CHECK(text("index") == "2");
  CHECK(text("index0") == "1");
  CHECK(text("revindex") == "1");
  CHECK(text("revindex0") == "0");
  CHECK(text("first") == "False");
  CHECK(text("last") == "True");
  CHECK(text("depth") == "2");
  CHECK(text("previtem") == "a");
  CHECK(last.find("nextitem")->is(JinjaValue::Kind::undefined));
}
