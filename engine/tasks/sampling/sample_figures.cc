#include "engine/tasks/sampling/sample_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/align/group_advantage.h"
#include "engine/tasks/scores/intervals.h"

namespace longhaul {

namespace {

// A reward of 1 or more says "right" only where a program checks.
bool is_checked(const SampleSettings& settings) {
  return settings.reward.kind != "model" && settings.reward.kind != "judge";
}

void add_share(std::vector<Figure>& figures, const std::string& name, double right, double all) {
  const Interval interval = wilson_interval(right, all);
  figures.push_back({name, right / all, ""});
  figures.push_back({name + "_low", interval.low, ""});
  figures.push_back({name + "_high", interval.high, ""});
}

}  // namespace

void SampleSums::count(const SampledGroup& group, const KeptRows& kept) {
  groups += 1;
  std::optional<double> best;
  std::vector<std::optional<double>> all;
  for (const SampledAnswer& answer : group.answers) {
    answers += 1, tokens += static_cast<double>(answer.tokens.size()), cut += answer.cut ? 1 : 0;
    all.push_back(answer.reward.value);
    faults += answer.reward.value ? 0 : 1;
    if (!answer.reward.value) continue;
    const double reward = *answer.reward.value;
    rewards += reward, reward_squares += reward * reward, right += reward >= 1 ? 1 : 0;
    best = std::max(best.value_or(reward), reward);
  }
  equal_groups += rewards_are_equal(all) ? 1 : 0;
  kept_groups += kept.rows > 0 ? 1 : 0, kept_rows += static_cast<double>(kept.rows);
  if (!best) return;
  judged_groups += 1, best_rewards += *best, right_groups += *best >= 1 ? 1 : 0;
}

void SampleSums::add(const SampleSums& other) {
  using S = SampleSums;
  for (const auto field : {&S::groups, &S::answers, &S::tokens, &S::cut, &S::faults, &S::rewards, &S::reward_squares,
                           &S::right, &S::judged_groups, &S::best_rewards, &S::right_groups, &S::equal_groups,
                           &S::kept_groups, &S::kept_rows, &S::comparisons, &S::order_flips, &S::letters})
    this->*field += other.*field;
}

std::vector<Figure> sample_figures(const SampleSettings& settings, const SampleSums& sums, std::int64_t too_long) {
  const double judged = sums.answers - sums.faults, mean = sums.rewards / judged;
  const double spread = std::max(0.0, sums.reward_squares - judged * mean * mean);
  std::vector<Figure> figures = {{"prompts", sums.groups, ""},
                                 {"prompts_too_long", static_cast<double>(too_long), ""},
                                 {"answers", sums.answers, ""},
                                 {"answer_tokens", sums.tokens / sums.answers, "tokens"},
                                 {"answers_cut", sums.cut / sums.answers, ""},
                                 {"reward", mean, ""},
                                 {"reward_deviation", judged > 1 ? std::sqrt(spread / (judged - 1)) : 0.0, ""},
                                 {"reward_faults", sums.faults, ""},
                                 {"best_reward", sums.best_rewards / sums.judged_groups, ""}};
  if (is_checked(settings)) {
    // Answers to one prompt are alike: only one to each has an interval that counts answers.
    if (settings.samples == 1)
      add_share(figures, "accuracy", sums.right, sums.answers);
    else
      figures.push_back({"accuracy", sums.right / sums.answers, ""});
    add_share(figures, "best_accuracy", sums.right_groups, sums.groups);
  }
  if (settings.samples > 1) figures.push_back({"equal_groups", sums.equal_groups / sums.groups, ""});
  figures.push_back({"kept_rows", sums.kept_rows, ""});
  figures.push_back({"kept_prompts", sums.kept_groups / sums.groups, ""});
  if (settings.reward.kind != "judge") return figures;
  figures.push_back({"comparisons", sums.comparisons, ""});
  if (sums.comparisons == 0) return figures;
  figures.push_back({"order_flips", sums.order_flips / sums.comparisons, ""});
  figures.push_back({"letter_probability", sums.letters / sums.comparisons, ""});
  return figures;
}

}  // namespace longhaul
