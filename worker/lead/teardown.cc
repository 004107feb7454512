#include "worker/lead/teardown.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

// Of many nodes the first are enough to look at.
std::string names_of(const std::vector<HostTeardown>& hosts) {
  constexpr std::size_t named = 4;
  std::vector<std::string> names;
  for (const HostTeardown& one : hosts)
    if (names.size() < named) names.push_back(one.host);
  if (hosts.size() > named) names.push_back(format("{} more", hosts.size() - named));
  return join(names, ", ");
}

}  // namespace

TeardownView judge_teardown(std::int64_t killed_ms, const std::vector<HostTeardown>& all, int hosts,
                            const TeardownOptions& options) {
  std::vector<HostTeardown> there, blocked;
  int ranks = 0;
  for (const HostTeardown& one : all) {
    if (one.alive == 0) continue;
    there.push_back(one);
    if (one.blocked) blocked.push_back(one);
    ranks += one.alive;
  }
  TeardownView view;
  view.over = there.empty();
  if (view.over || killed_ms < options.leave_after_ms) return view;
  const double few = std::max(1.0, std::floor(options.few_share * hosts));
  const bool many = static_cast<double>(there.size()) > few;
  view.accused = blocked.empty() && !many;
  view.over = view.accused || killed_ms >= options.patience_ms;
  if (view.over)
    for (const HostTeardown& one : there) view.leave.push_back(one.host);
  if (view.accused) return view;
  view.waits_for = format(
      "{} rank{} on {} of {} nodes ({}) {} not gone {:.0f} s after SIGKILL, {}", ranks, ranks == 1 ? "" : "s",
      there.size(), hosts, names_of(there), ranks == 1 ? "is" : "are", static_cast<double>(killed_ms) * 1e-3,
      blocked.empty() ? "too many at once for a fault of their own"
                      : format("blocked in the kernel on {}: look at the file system of the run", names_of(blocked)));
  return view;
}

}  // namespace longhaul
