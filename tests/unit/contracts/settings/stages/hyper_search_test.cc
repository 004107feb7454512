// Search spaces as people write them: what is read, and what is refused with the parameter's name.
#include "contracts/settings/stages/hyper_search.h"

#include <doctest/doctest.h>

#include "base/toml.h"
#include "contracts/settings/training/training.h"

namespace longhaul {
namespace {

HyperSearchSettings parsed(const char* text, Diagnostics& diagnostics) {
  const auto value = parse_toml(text, "wf.toml");
  REQUIRE(value.ok());
  return parse_hyper_search(*value, "stage.lr", diagnostics, {"kind"});
}

std::string errors_of(const char* text) {
  Diagnostics diagnostics;
  parsed(text, diagnostics);
  return diagnostics.empty() ? "" : diagnostics.render("");
}

bool says(const std::string& text, const char* part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a search is read with ranges, whole numbers and lists, and written back the same") {
  Diagnostics diagnostics;
  const HyperSearchSettings s = parsed(R"(
kind = "tune"
method = "rounds"
trials = 12
max_steps = 900
[space."optimizer.lr"]
min = 1e-4
max = 1e-2
scale = "log"
[space."optimizer.warmup_steps"]
min = 10
max = 100
step = 10
[space."global_batch_size"]
values = [16, 32, 64]
[space."params.schedule"]
values = ["constant", "wsd"]
)",
                                       diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(s.space.size() == 4);
  CHECK(s.space[0].name == "optimizer.lr");
  CHECK(s.space[0].scale == "log");
  CHECK(!s.space[0].integer);
  CHECK(s.space[1].integer);
  CHECK(s.space[1].step == 10);
  CHECK(s.space[2].values == ValueArray{16, 32, 64});
  CHECK(s.space[3].is_list());
  CHECK(s.method == "rounds");
  CHECK(parse_hyper_search(hyper_search_to_value(s), "search", diagnostics) == s);
  CHECK(diagnostics.empty());
}

TEST_CASE("a path may be written without quotes, and a list without its key") {
  Diagnostics diagnostics;
  const auto s = parsed(
      "max_steps = 10\n[space.optimizer.lr]\nmin = 0.1\nmax = 1.0\n[space.optimizer]\n"
      "weight_decay = [0.0, 0.1]\n[space]\nglobal_batch_size = [8, 16]\n",
      diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(s.space.size() == 3);
  std::vector<std::string> names;
  for (const auto& p : s.space) names.push_back(p.name);
  CHECK(std::find(names.begin(), names.end(), "optimizer.lr") != names.end());
  CHECK(std::find(names.begin(), names.end(), "optimizer.weight_decay") != names.end());
  CHECK(std::find(names.begin(), names.end(), "global_batch_size") != names.end());
}

TEST_CASE("everything that is wrong with a space is reported at once, with names and places") {
  const std::string text = errors_of(R"(
max_steps = 100
[space]
"a.same" = { min = 2.0, max = 2.0 }
"a.turned" = { min = 3, max = 1 }
"a.zero" = { min = 0.0, max = 1.0, scale = "log" }
"a.scale" = { min = 1.0, max = 2.0, scale = "cubic" }
"a.half" = { min = 1.0 }
"a.none" = {}
"a.both" = { min = 1.0, values = [1, 2] }
"a.empty" = { values = [] }
"a.twice" = { values = [1, 1.0] }
"a.mixed" = { values = [1, "two"] }
"a.logstep" = { min = 1.0, max = 9.0, scale = "log", step = 1.0 }
"a.wide" = { min = 1.0, max = 2.0, step = 5.0 }
"a.word" = "many"
"a..gap" = [1, 2]
"b.lr" = [1, 2]
b.lr = [1, 2]
)");
  CHECK(says(text, "wf.toml:4:"));
  CHECK(says(text, "space.\"a.same\": the range from 2 to 2 is empty"));
  CHECK(says(text, "space.\"a.turned\": min = 3 is above max = 1"));
  CHECK(says(text, "space.\"a.zero\": scale = \"log\" with min = 0"));
  CHECK(says(text, "cubic"));
  CHECK(says(text, "space.\"a.half\" has no max"));
  CHECK(says(text, "space.\"a.none\" has neither min and max nor values"));
  CHECK(says(text, "space.\"a.both\" has both values and min"));
  CHECK(says(text, "space.\"a.empty\".values is no list of values"));
  CHECK(says(text, "space.\"a.twice\".values has 1 twice"));
  CHECK(says(text, "space.\"a.mixed\".values mixes integer and string"));
  CHECK(says(text, "space.\"a.logstep\": step goes with scale = \"linear\""));
  CHECK(says(text, "space.\"a.wide\": step = 5 is wider"));
  CHECK(says(text, "space.\"a.word\" is string"));
  CHECK(says(text, "space.\"a..gap\" is no path"));
  CHECK(says(text, "space.\"b.lr\" is there twice"));
  CHECK(says(text, "15 errors"));
}

TEST_CASE("of the search itself: what is missing and what contradicts") {
  CHECK(says(errors_of("trials = 4\n"), "space names nothing that may vary"));
  CHECK(says(errors_of("[space]\nx = [1, 2]\n"), "has no max_steps"));
  CHECK(says(errors_of("max_steps = 5\nmin_steps = 9\n[space]\nx = [1, 2]\n"), "min_steps = 9 is above max_steps = 5"));
  CHECK(says(errors_of("max_steps = 5\nmethod = \"asha\"\nbrackets = 2\n[space]\nx = [1, 2]\n"),
             "brackets go with method = \"rounds\""));
  CHECK(says(errors_of("max_steps = 5\nproposals = \"tpe\"\n[space]\nx = [1, 2]\n"), "one bracket of rounds"));
  CHECK(errors_of("max_steps = 5\nproposals = \"tpe\"\nbrackets = 2\n[space]\nx = [1, 2]\n") == "");
  CHECK(says(errors_of("max_steps = 5\ntrails = 2\n[space]\nx = [1, 2]\n"), "trails"));
  CHECK(says(errors_of("max_steps = 5\neta = 1\n[space]\nx = [1, 2]\n"), "eta"));
}

TEST_CASE("a space is held to the settings of the stage that it varies") {
  const auto fields = pretrain_fields().describe();
  const Value params(ValueTable{{"corpus", "here", {}}});
  const auto check = [&](std::vector<HyperParameter>& space) {
    Diagnostics diagnostics;
    check_hyper_space(space, fields, params, "stage.lr.space", diagnostics);
    return diagnostics.empty() ? std::string() : diagnostics.render("");
  };
  const auto range = [](const char* name, double min, double max) {
    HyperParameter p;
    p.name = name, p.min = min, p.max = max;
    return p;
  };
  const auto list = [](const char* name, ValueArray values) {
    HyperParameter p;
    p.name = name, p.values = std::move(values);
    return p;
  };

  std::vector<HyperParameter> good = {range("optimizer.lr", 1, 2), range("optimizer.warmup_steps", 10, 20),
                                      list("optimizer.lr_schedule", {"constant", "wsd"}),
                                      list("params.corpus", {"a", "b"}), list("deterministic", {true, false})};
  good[0].integer = true;  // written as 1 and 2
  CHECK(check(good) == "");
  CHECK(!good[0].integer);
  CHECK(good[1].integer);

  std::vector<HyperParameter> bad = {
      range("optimizer.lrr", 1, 2),         list("optimizer.lr_schedule", {"constant", "stairs"}),
      range("optimizer.lr_schedule", 1, 2), range("optimizer.beta1", 0.5, 1.5),
      range("global_batch_size", 8.5, 16),  range("steps", 1, 9),
      list("params.nobody", {1, 2})};
  const std::string text = check(bad);
  CHECK(says(text, "\"optimizer.lrr\" is no setting of the stage"));
  CHECK(says(text, "did you mean optimizer.lr?"));
  CHECK(says(text, "\"stairs\" is none of cosine"));
  CHECK(says(text, "the setting is text, not a range of numbers"));
  CHECK(says(text, "1.5 is above the setting's largest, 1"));
  CHECK(says(text, "\"global_batch_size\": the setting is a whole number, the range is not"));
  CHECK(says(text, "\"steps\": how long a trial trains is what the rungs say"));
  CHECK(says(text, "\"params.nobody\" is no setting"));
}

}  // namespace longhaul
