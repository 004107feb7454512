#include "autotune/search/replan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text/text.h"

namespace longhaul {

namespace {

// Numbers of nodes worth a search: the largest ones, and those whose ranks share a batch with the model split
// least. At most eight, largest first.
std::vector<int> numbers_of_nodes(const SearchRequest& question, int nodes, int ranks_per_node) {
  std::vector<int> all;
  for (int used = nodes; used >= std::max(1, nodes - nodes / 4); --used) all.push_back(used);
  const auto split = [&](int used) {
    const std::int64_t ranks = std::int64_t{used} * ranks_per_node;
    return ranks / std::gcd(ranks, question.task.global_batch_size);
  };
  std::vector<int> some(all.begin(), all.begin() + std::min<std::ptrdiff_t>(3, std::ssize(all)));
  std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return split(a) < split(b); });
  for (const int used : all)
    if (some.size() < 8 && std::find(some.begin(), some.end(), used) == some.end()) some.push_back(used);
  std::sort(some.rbegin(), some.rend());
  return some;
}

}  // namespace

Result<ReplannedLayout> layout_after_loss(const SearchRequest& question, int nodes, int ranks_per_node) {
  constexpr double alike = 1.01;
  std::optional<ReplannedLayout> chosen;
  std::optional<Error> refused;
  for (const int used : numbers_of_nodes(question, nodes, ranks_per_node)) {
    SearchRequest q = question;
    q.space.gpus = used * ranks_per_node, q.best = 1;
    auto found = search_layouts(q);
    if (!found.ok()) {
      if (!refused) refused = found.error();
      continue;
    }
    const RankedLayout& best = found->best.front();
    // Fewer nodes do the same work: fewer are chosen where they take hardly longer.
    if (!chosen || best.seconds() < chosen->best.seconds() * alike) chosen = ReplannedLayout{used, best};
  }
  if (chosen) return *chosen;
  if (refused) return refused->with_context(format("with {} node{}", nodes, nodes == 1 ? "" : "s"));
  return make_error(ErrorCode::invalid_input, format("{} nodes are none", nodes));
}

}  // namespace longhaul
