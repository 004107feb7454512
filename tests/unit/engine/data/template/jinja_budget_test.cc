// What bounds the rendering of a template: steps, nesting, and the size of values and output.
#include "engine/data/jinja/jinja_budget.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

using namespace longhaul;

TEST_CASE("jinja budget: the step beyond the limit is an error that names the limit, and so is every later one") {
  JinjaBudget budget({.steps = 3});
  CHECK(budget.spend(2).ok());
  CHECK(budget.spend(1).ok());
  const Status beyond = budget.spend(1);
  REQUIRE_FALSE(beyond.ok());
  CHECK(beyond.error().what == "the template has taken 3 steps and has not ended");
  CHECK_FALSE(budget.spend(0).ok());
}

TEST_CASE("jinja budget: bytes cost a step for every whole 256, and a value costs the bytes that printing it takes") {
  JinjaBudget budget({.steps = 2});
  CHECK(budget.spend_bytes(255).ok());
  CHECK(budget.spend_bytes(512).ok());
  CHECK_FALSE(budget.spend_bytes(256).ok());

  JinjaBudget of_values({.steps = 3});
  CHECK(of_values.check(JinjaValue::of(std::string(512, 'a'))).ok());
  CHECK_FALSE(of_values.check(JinjaValue::of(std::string(512, 'a'))).ok());
}

TEST_CASE("jinja budget: a value nested more than 600 deep is refused") {
  const auto nested = [](int depth) {
    JinjaValue value = JinjaValue::of(JinjaList{});
    while (value.depth() < depth) value = JinjaValue::of(JinjaList{value});
    return value;
  };
  JinjaBudget budget({});
  CHECK(budget.check(nested(600)).ok());
  const Status deeper = budget.check(nested(601));
  REQUIRE_FALSE(deeper.ok());
  CHECK(deeper.error().what == "values nested more than 600 deep");
}

TEST_CASE("jinja budget: an output of as many bytes as allowed passes, one more does not") {
  const JinjaBudget budget({.output_bytes = 2048});
  CHECK(budget.check_output(2048).ok());
  const Status more = budget.check_output(2049);
  REQUIRE_FALSE(more.ok());
  CHECK(more.error().what == "the template writes more than 2.0 KiB");
}

TEST_CASE("jinja budget: nodes are too deep from the 801st on, until one of them is left") {
  JinjaBudget budget({});
  std::vector<std::unique_ptr<JinjaBudget::Level>> levels;
  const auto enter = [&] { levels.emplace_back(new JinjaBudget::Level(budget.enter_node())); };
  for (int i = 0; i < 800; ++i) enter();
  CHECK_FALSE(budget.is_too_deep());
  enter();
  CHECK(budget.is_too_deep());
  levels.pop_back();
  CHECK_FALSE(budget.is_too_deep());
}
