// One decision of a search for hyperparameters, for programs that are not ours: reads
//   {"search": {...}, "batch": n, "slots": n, "history": {"trials": [...]}}
// from standard input (contracts/settings/stages/hyper_search.h, autotune/hyper/trial_history.h) and prints
//   {"starts": [{"trial", "settings", "rung", "from_step", "to_step", "why"}], "finished", "why", "best", "cost_share",
//    "planned_share", "set_aside"}.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "autotune/hyper/halving.h"
#include "base/value/json.h"

namespace longhaul::hyper {
namespace {

Result<Value> decide_step(const std::string& text) {
  LH_TRY(const Value asked, parse_json(text, "standard input"));
  const Value *const search = asked.find("search"), *const written = asked.find("history");
  if (!search) return make_error(ErrorCode::invalid_input, "no \"search\"");
  Diagnostics diagnostics;
  const HyperSearchSettings settings = parse_hyper_search(*search, "search", diagnostics);
  LH_CHECK(diagnostics.to_status(""));
  std::vector<std::string> set_aside;
  std::vector<Trial> history;
  if (written) {
    LH_TRY(history, history_from_value(*written, set_aside));
  }
  const Halving halving(settings, asked.get_integer("batch"));
  const Decision decision = halving.decide(history, static_cast<int>(asked.get_integer("slots", 1)));

  Value answer = Value::make_table();
  Value starts = Value::make_array();
  for (const TrialStart& start : decision.starts) {
    Value entry = Value::make_table();
    entry.set("trial", start.trial);
    entry.set("settings", start.settings);
    entry.set("rung", start.rung);
    entry.set("from_step", start.from_step);
    entry.set("to_step", start.to_step);
    entry.set("why", start.why);
    starts.push_back(std::move(entry));
  }
  answer.set("starts", std::move(starts));
  answer.set("finished", decision.finished);
  answer.set("why", decision.why);
  if (const auto best = halving.best(history)) {
    Value entry = Value::make_table();
    entry.set("trial", best->trial);
    entry.set("settings", best->settings);
    entry.set("metric", best->metric);
    entry.set("whole", best->whole);
    answer.set("best", std::move(entry));
  }
  answer.set("cost_share", halving.cost(history).share());
  answer.set("planned_share", halving.planned_cost().share());
  Value aside = Value::make_array();
  for (const std::string& what : set_aside) aside.push_back(what);
  answer.set("set_aside", std::move(aside));
  return answer;
}

}  // namespace
}  // namespace longhaul::hyper

int main() {
  const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  const auto answer = longhaul::hyper::decide_step(text);
  if (!answer.ok()) {
    std::fprintf(stderr, "hyper_step: %s\n", answer.error().message().c_str());
    return 3;
  }
  std::printf("%s\n", longhaul::to_json(*answer).c_str());
  return 0;
}
