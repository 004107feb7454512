#include "engine/tasks/rewards/reward_accuracy.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

RewardPair pair_of_lengths(std::size_t chosen, std::size_t rejected, const std::string& category) {
  return {std::vector<std::int32_t>(chosen, 1), std::vector<std::int32_t>(rejected, 2), 0, category};
}

double reward_figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures)
    if (figure.name == name) return figure.value;
  FAIL("no figure ", name);
  return 0;
}

}  // namespace

TEST_CASE("a reward model is right where the chosen answer's number is larger; shares have Wilson's intervals") {
  std::vector<RewardPair> pairs;
  std::vector<double> rewards;
  // 8 of 10 right; one of the two others is a tie. Of "chat" 4 of 5, of "code" 3 of 3, two of no category.
  for (int i = 0; i < 10; ++i) {
    pairs.push_back(pair_of_lengths(i < 6 ? 3 : 5, i == 9 ? 5 : 4, i < 5 ? "chat" : i < 8 ? "code" : ""));
    rewards.push_back(i == 0 ? 1.0 : i == 9 ? 2.0 : 3.0), rewards.push_back(i == 0 || i == 9 ? 2.0 : -1.0);
  }
  const std::vector<Figure> figures = reward_accuracy(pairs, rewards, "heldout_");
  CHECK(reward_figure(figures, "heldout_accuracy_low") == doctest::Approx(0.4901625).epsilon(1e-6));
  CHECK(reward_figure(figures, "heldout_accuracy_high") == doctest::Approx(0.9433178).epsilon(1e-6));
  CHECK(reward_figure(figures, "heldout_accuracy_chat") == doctest::Approx(0.8));
  CHECK(reward_figure(figures, "heldout_pairs_chat") == 5);
  CHECK(reward_figure(figures, "heldout_accuracy_code") == 1);
  CHECK(reward_figure(figures, "heldout_accuracy_code_low") == doctest::Approx(0.4385030).epsilon(1e-6));
  CHECK(reward_figure(figures, "heldout_pairs_code") == 3);
  // Six are shorter, three longer, one equal.
  CHECK(reward_figure(figures, "heldout_length_only_accuracy") == doctest::Approx(0.65));
  CHECK(figures.size() == 13);
}

TEST_CASE("of no pair of rewards nothing is known: the whole interval, and no category") {
  const std::vector<Figure> figures = reward_accuracy({}, {}, "");
  CHECK(reward_figure(figures, "accuracy_low") == 0);
  CHECK(reward_figure(figures, "accuracy_high") == 1);
  CHECK(reward_figure(figures, "length_only_accuracy") == 0);
  CHECK(figures.size() == 5);
}

TEST_CASE("more categories than a report can show are refused with their file") {
  std::vector<RewardPair> pairs;
  for (int i = 0; i < 101; ++i) pairs.push_back(pair_of_lengths(1, 2, "c" + std::to_string(i)));
  CHECK(check_categories({pairs.data(), 100}, "f").ok());
  CHECK(check_categories(pairs, "rows.jsonl").error().message().find("rows.jsonl has 101 categories") !=
        std::string::npos);
}
