#include "autotune/hyper/trial_standings.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

// How far a metric lies from the best, in words.
std::string behind_text(double metric, double best) {
  if (metric == best) return "as good as the best";
  if (best == 0) return format("{:.4g} beside {:.4g}", metric, best);
  return format("{:.2g} % behind the best", 100 * std::fabs(metric / best - 1));
}

std::string done_verdict(const TrialStanding& one, const std::optional<BestTrial>& best, int rung_max, bool finished) {
  if (best && one.name == best->trial) return finished ? "won" : "best so far";
  if (best && one.rung == best->rung && one.whole) return behind_text(one.metric, best->metric);
  // Somebody has gone on from its rung, or nobody will.
  if (finished || one.rung < rung_max) return format("not among the best of rung {}", one.rung);
  return "waits";
}

}  // namespace

std::vector<TrialStanding> trial_standings(const Halving& search, const std::vector<Trial>& history,
                                           const std::map<std::string, std::string>& reasons, bool finished) {
  std::vector<TrialStanding> standings;
  int rung_max = 0;
  for (const Trial& trial : history) {
    if (trial.results.empty()) continue;
    const RungResult& last = trial.results.back();
    rung_max = std::max(rung_max, last.rung);
    standings.push_back({trial.name, trial.settings, last.rung, search.steps(last.rung, trial.settings), last.end,
                         last.metric, last.rung + 1 == search.rungs(), ""});
  }
  const auto best = search.best(history);
  for (TrialStanding& one : standings) {
    const auto reason = reasons.find(one.name);
    const std::string text = reason == reasons.end() || reason->second.empty() ? "" : ": " + reason->second;
    if (one.end == RungEnd::done)
      one.verdict = done_verdict(one, best, rung_max, finished);
    else if (one.end == RungEnd::running)
      one.verdict = format("trains to step {}", one.steps);
    else
      one.verdict = (one.end == RungEnd::out_of_memory ? "out of memory" : to_string(one.end)) + text;
  }
  const double sign = search.settings().mode == "max" ? -1 : 1;
  std::ranges::stable_sort(standings, std::less{}, [&](const TrialStanding& one) {
    const int group = one.end == RungEnd::done ? 0 : one.end == RungEnd::running ? 1 : 2;
    return std::tuple(group, -one.rung, group == 0 ? sign * one.metric : 0.0, one.name);
  });
  return standings;
}

std::string configuration_text(const Value& configuration) {
  std::vector<std::string> parts;
  if (!configuration.is_table()) return {};
  for (const ValueMember& member : configuration.as_table()) {
    const Value& value = member.value;
    const std::string text = value.is_string()    ? "\"" + value.as_string() + "\""
                             : value.is_bool()    ? std::string(value.as_bool() ? "true" : "false")
                             : value.is_integer() ? std::to_string(value.as_integer())
                             : value.is_number()  ? format("{:.4g}", value.as_number())
                                                  : value.kind_name();
    parts.push_back(member.key + " = " + text);
  }
  return join(parts, ", ");
}

}  // namespace longhaul::hyper
