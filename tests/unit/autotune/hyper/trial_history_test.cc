#include "autotune/hyper/trial_history.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

namespace longhaul::hyper {
namespace {

std::vector<Trial> read_back(const std::string& json, std::vector<std::string>& aside) {
  const auto value = parse_json(json);
  REQUIRE(value.ok());
  const auto history = history_from_value(*value, aside);
  REQUIRE(history.ok());
  return *history;
}

}  // namespace

TEST_CASE("a history is the same after it was written and read") {
  const Value lr(ValueTable{{"optimizer.lr", 1.2345678901234567e-3, {}}});
  const std::vector<Trial> history = {
      {trial_name(0), lr, {{0, RungEnd::done, 3.25, 10}, {1, RungEnd::lost, 0, 7}, {1, RungEnd::running, 0, 0}}},
      {trial_name(3), lr, {{0, RungEnd::out_of_memory, 0, 1}}},
      {trial_name(12), lr, {{0, RungEnd::diverged, 0, 4}}}};
  std::vector<std::string> aside;
  CHECK(read_back(to_json(history_to_value(history)), aside) == history);
  CHECK(aside.empty());
}

TEST_CASE("names of trials sort like their numbers, and only such names count") {
  CHECK(trial_name(7) == "t0007");
  CHECK(trial_name(9) < trial_name(10));
  CHECK(trial_name(999) < trial_name(1000));
  CHECK(trial_index("t0042") == 42);
  for (const char* foreign : {"", "t", "t7", "u0007", "t00x7", "t-001", "t00071"}) CHECK(trial_index(foreign) == -1);
}

TEST_CASE("what is damaged is set aside and named, and the rest is kept") {
  std::vector<std::string> aside;
  const auto history = read_back(R"({"trials": [
    {"name": "t0002", "settings": {"x": 1}, "results": [{"rung": 0, "end": "done", "metric": 2.5, "steps": 8}]},
    {"name": "t0001", "settings": {"x": 2}, "results": [{"rung": 0, "end": "done", "steps": 8}]},
    {"name": "t0003", "settings": {"x": 3}, "results": [{"rung": 0, "end": "done", "metric": null, "steps": 8}]},
    {"name": "t0004", "results": []},
    {"name": "what", "settings": {"x": 3}},
    {"name": "t0002", "settings": {"x": 9}, "results": []},
    {"name": "t0005", "settings": {"x": 5}, "results": [{"rung": 1, "end": "done", "metric": 1, "steps": 8}]},
    {"name": "t0006", "settings": {"x": 6}, "results": [{"rung": 0, "end": "done", "metric": "low", "steps": 8}]},
    {"name": "t0007", "settings": {"x": 7}, "results": [{"rung": 0, "end": "exploded", "steps": 8}]},
    {"name": "t0008", "settings": {"x": 8}, "results": [{"rung": 0, "end": "lost", "steps": -8}]}
  ]})",
                                 aside);
  REQUIRE(history.size() == 7);
  CHECK(history[0].name == "t0001");
  CHECK(history[0].results.empty());
  CHECK(history[1].settings.get_integer("x") == 1);
  REQUIRE(history[2].results.size() == 1);
  CHECK(history[2].results[0].end == RungEnd::diverged);  // NaN has no other form in JSON
  const std::vector<std::string> expected = {
      "t0001: result 1 is done without a metric",         "t0004: no settings",
      "trial number 5 of the list: no name like t0007",   "t0002: is there twice",
      "t0005: result 1 does not follow the one before",   "t0006: result 1 is done with a metric that is no number",
      "t0007: result 1 has the unknown end \"exploded\"", "t0008: result 1 has steps that are no count"};
  CHECK(aside == expected);
  CHECK(!history_from_value(Value("text"), aside).ok());
}

}  // namespace longhaul::hyper
