#include "resiliency/taxonomy/lemon_host.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t names_shown = 4;  // the newest; a host that nobody can replace may have many

bool counts(const PastRestart& past, std::int64_t now_ms, const TierBudgets& budgets) {
  return past.accuses != Accusation::never && !past.host.empty() && now_ms - past.at_ms < budgets.lemon_memory_ms;
}

// What speaks against hosts within the window, oldest first.
TierHistory accusations(const TierHistory& history, std::int64_t now_ms, const TierBudgets& budgets) {
  TierHistory counted;
  for (const PastRestart& past : history)
    if (counts(past, now_ms, budgets)) counted.push_back(past);
  std::stable_sort(counted.begin(), counted.end(),
                   [](const PastRestart& a, const PastRestart& b) { return a.at_ms < b.at_ms; });
  return counted;
}

std::string ordinal(std::size_t count) {
  constexpr const char* words[] = {"zeroth", "first", "second", "third", "fourth", "fifth"};
  return count < std::size(words) ? std::string(words[count]) : format("{}th", count);
}

LemonVerdict judge(const std::string& host, const TierHistory& counted, const TierBudgets& budgets) {
  std::set<std::string> kinds;  // of the doubtful ones
  std::size_t sure = 0, doubtful = 0;
  std::vector<std::string> names;
  std::int64_t first_ms = 0, last_ms = 0;
  for (const PastRestart& past : counted) {
    if (past.host != host) continue;
    if (names.empty()) first_ms = past.at_ms;
    last_ms = past.at_ms;
    names.push_back(past.fault.empty() ? past.cause : past.fault);
    if (past.accuses == Accusation::sure) {
      ++sure;
    } else {
      ++doubtful;
      kinds.insert(past.fault);
    }
  }
  const auto enough = static_cast<std::size_t>(std::max(1, budgets.lemon_faults));
  if (names.size() < enough) return {};
  std::map<std::string, std::size_t> elsewhere;
  for (const PastRestart& past : counted)
    if (past.host != host && past.accuses == Accusation::doubtful && kinds.count(past.fault)) ++elsewhere[past.host];
  if (sure < enough)
    for (const auto& [other, faults] : elsewhere)
      if (faults >= doubtful) return {false, other + " has had as many faults of this kind"};
  std::string why = format("its {} fault within {}: ", ordinal(names.size()),
                           human_duration(1e-3 * static_cast<double>(last_ms - first_ms)));
  if (names.size() > names_shown) {
    why += "..., ";
    names.erase(names.begin(), names.end() - static_cast<std::ptrdiff_t>(names_shown));
  }
  return {true, why + join(names, ", ")};
}

}  // namespace

LemonVerdict judge_host(const FaultView& fault, const TierHistory& history, const TierBudgets& budgets) {
  if (fault.host.empty() || fault.accuses == Accusation::never) return {};
  // Mostly it is the first there.
  const auto before = std::count_if(history.begin(), history.end(), [&](const PastRestart& past) {
    return past.host == fault.host && counts(past, fault.at_ms, budgets);
  });
  if (before + 1 < budgets.lemon_faults) return {};
  TierHistory all = history;
  all.push_back(past_restart(fault, RestartTier::in_job));
  return judge(fault.host, accusations(all, fault.at_ms, budgets), budgets);
}

}  // namespace longhaul
