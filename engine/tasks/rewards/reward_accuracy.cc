#include "engine/tasks/rewards/reward_accuracy.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"
#include "engine/tasks/scores/intervals.h"

namespace longhaul {

namespace {

constexpr std::size_t categories_max = 100;

struct RightOf {
  double right = 0, pairs = 0;
};

void add_interval(std::vector<Figure>& figures, const std::string& name, const RightOf& of) {
  const Interval interval = wilson_interval(of.right, of.pairs);
  figures.push_back({name + "_low", interval.low, ""});
  figures.push_back({name + "_high", interval.high, ""});
}

}  // namespace

std::vector<Figure> reward_accuracy(std::span<const RewardPair> pairs, std::span<const double> rewards,
                                    const std::string& name) {
  LH_ASSERT(rewards.size() == 2 * pairs.size(), format("{} rewards of {} pairs", rewards.size(), pairs.size()));
  RightOf all, shorter, longer;
  std::map<std::string, RightOf> categories;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const double right = rewards[2 * i] > rewards[2 * i + 1] ? 1 : 0;
    const std::size_t chosen = pairs[i].chosen.size(), rejected = pairs[i].rejected.size();
    all.right += right, all.pairs += 1;
    shorter.right += chosen < rejected ? 1 : chosen == rejected ? 0.5 : 0;
    longer.right += chosen > rejected ? 1 : chosen == rejected ? 0.5 : 0;
    if (pairs[i].category.empty()) continue;
    RightOf& own = categories[pairs[i].category];
    own.right += right, own.pairs += 1;
  }
  std::vector<Figure> figures;
  add_interval(figures, name + "accuracy", all);
  const RightOf by_length{std::max(shorter.right, longer.right), all.pairs};
  figures.push_back({name + "length_only_accuracy", by_length.right / std::max(1.0, all.pairs), ""});
  add_interval(figures, name + "length_only_accuracy", by_length);
  for (const auto& [category, of] : categories) {
    figures.push_back({name + "accuracy_" + category, of.right / of.pairs, ""});
    add_interval(figures, name + "accuracy_" + category, of);
    figures.push_back({name + "pairs_" + category, of.pairs, ""});
  }
  return figures;
}

Status check_categories(std::span<const RewardPair> pairs, const std::string& file) {
  std::set<std::string> categories;
  for (const RewardPair& pair : pairs) categories.insert(pair.category);
  if (categories.size() <= categories_max) return {};
  return make_error(ErrorCode::invalid_input,
                    format("{} has {} categories, each of which has figures of its own", file, categories.size()),
                    format("use at most {}, or ignore = [\"category\"]", categories_max));
}

}  // namespace longhaul
