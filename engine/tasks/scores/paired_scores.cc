#include "engine/tasks/scores/paired_scores.h"

#include "base/error/result.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

// Calls `pair` with each item of the first and that of the second with the same line.
template <class Pair>
void for_pairs(const ItemScores& first, const ItemScores& second, const Pair& pair) {
  auto other = second.items.begin();
  for (const ScoredItem& item : first.items) {
    while (other != second.items.end() && other->line < item.line) ++other;
    if (other != second.items.end() && other->line == item.line) pair(item, *other);
  }
}

}  // namespace

PairedCounts count_pairs(const ItemScores& first, const ItemScores& second, std::size_t figure) {
  LH_ASSERT(first.figures == second.figures && figure < first.figures.size(),
            format("figure {} of {}", figure, first.figures.size()));
  PairedCounts counts;
  for_pairs(first, second, [&](const ScoredItem& one, const ScoredItem& other) {
    const bool a = one.right[figure] != 0, b = other.right[figure] != 0;
    ++(a && b ? counts.both : a ? counts.first_alone : b ? counts.second_alone : counts.neither);
  });
  return counts;
}

std::vector<ItemAmount> paired_differences(const ItemScores& first, const ItemScores& second, std::size_t mean) {
  LH_ASSERT(first.means == second.means && mean < first.means.size(),
            format("mean {} of {}", mean, first.means.size()));
  std::vector<ItemAmount> made;
  for_pairs(first, second, [&](const ScoredItem& one, const ScoredItem& other) {
    made.push_back({one.amounts[mean].value - other.amounts[mean].value, one.amounts[mean].weight});
  });
  return made;
}

std::string sample_lines(const ItemScores& scores, const std::string& model, const std::string& task) {
  std::string lines;
  for (const ScoredItem& item : scores.items) {
    Value line = Value::make_table();
    line.set("model", model);
    line.set("task", task);
    line.set("line", item.line);
    for (const ValueMember& member : item.sample.as_table()) line.set(member.key, member.value);
    lines += to_json(line) + "\n";
  }
  return lines;
}

}  // namespace longhaul
