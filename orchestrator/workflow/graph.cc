#include "orchestrator/workflow/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace longhaul {
namespace {

// Follows needs among `left` nodes until one repeats. Every such node needs another one of them.
std::vector<int> find_loop(const std::vector<std::vector<int>>& needs, const std::vector<bool>& left, int start) {
  std::vector<int> path, seen_at(needs.size(), -1);
  int at = start;
  while (seen_at[at] < 0) {
    seen_at[at] = static_cast<int>(path.size());
    path.push_back(at);
    at = *std::find_if(needs[at].begin(), needs[at].end(), [&](int need) { return left[need]; });
  }
  std::vector<int> loop(path.begin() + seen_at[at], path.end());
  std::rotate(loop.begin(), std::min_element(loop.begin(), loop.end()), loop.end());
  return loop;
}

}  // namespace

StageOrder order_stages(const std::vector<std::vector<int>>& needs) {
  const int count = static_cast<int>(needs.size());
  StageOrder result;
  std::vector<std::vector<int>> dependents(count);
  std::vector<int> open(count, 0);
  for (int i = 0; i < count; ++i)
    for (int need : needs[i]) dependents[need].push_back(i), ++open[i];
  std::vector<bool> left(count, true);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // the first of the file first
  for (int i = 0; i < count; ++i)
    if (open[i] == 0) ready.push(i);
  const auto drain = [&](bool keep) {
    while (!ready.empty()) {
      const int at = ready.top();
      ready.pop();
      if (!left[at]) continue;
      left[at] = false;
      if (keep) result.order.push_back(at);
      for (int dependent : dependents[at])
        if (--open[dependent] == 0) ready.push(dependent);
    }
  };
  drain(true);
  for (int i = 0; i < count && result.loops.size() < 20;) {
    if (!left[i]) {
      ++i;
      continue;
    }
    std::vector<int> loop = find_loop(needs, left, i);
    for (int node : loop) ready.push(node);  // what only waits for this loop is no loop of its own
    drain(false);
    result.loops.push_back(std::move(loop));
  }
  return result;
}

}  // namespace longhaul
