#include "engine/align/group_advantage.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace longhaul;

namespace {

using Rewards = std::vector<std::optional<double>>;

AlignSettings settings_for(const char* method, const char* advantage = "scaled") {
  AlignSettings s;
  s.method = method, s.rollout.advantage = advantage;
  return s;
}

void check_near(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

}  // namespace

// NeMo-Aligner, tests/ppo_utils_test.py: baselines of two groups; and NeMo-RL, test_utils: rewards 1 to 6.
TEST_CASE("advantages: rloo compares with the mean of the others") {
  const AlignSettings rloo = settings_for("rloo");
  check_near(group_advantages(rloo, Rewards{1, 0, -3, 5}), {1 - 2.0 / 3, 0 - 1.0, -3 - 2.0, 5 + 2.0 / 3});
  check_near(group_advantages(rloo, Rewards{2, 7, -1, std::nullopt}), {2 - 3.0, 7 - 0.5, -1 - 4.5, 0});
  check_near(group_advantages(rloo, Rewards{1, 2, 3}), {1 - 2.5, 2 - 2.0, 3 - 1.5});
  check_near(group_advantages(rloo, Rewards{4, 5, 6}), {4 - 5.5, 5 - 5.0, 6 - 4.5});
}

TEST_CASE("advantages: grpo divides by the sample deviation of the group, Dr. GRPO does not") {
  check_near(group_advantages(settings_for("grpo"), Rewards{1, 2, 3}), {-1 / 1.0001, 0, 1 / 1.0001});
  check_near(group_advantages(settings_for("grpo", "centered"), Rewards{1, 2, 6}), {-2, -1, 3});
  const double deviation = std::sqrt(1.0 / 3);  // of 1, 0, 0: mean 1/3, squares 2/3 over 2
  check_near(group_advantages(settings_for("grpo"), Rewards{1, 0, std::nullopt, 0}),
             {2.0 / 3 / (deviation + 1e-4), -1.0 / 3 / (deviation + 1e-4), 0, -1.0 / 3 / (deviation + 1e-4)});
}

TEST_CASE("advantages: a group of equal rewards, or with one that counts, teaches nothing") {
  for (const char* method : {"grpo", "rloo", "reinforce++"}) {
    const AlignSettings settings = settings_for(method);
    check_near(group_advantages(settings, Rewards{0.5, 0.5, 0.5}), {0, 0, 0});
    check_near(group_advantages(settings, Rewards{std::nullopt, 2, std::nullopt}), {0, 0, 0});
    check_near(group_advantages(settings, Rewards{std::nullopt, std::nullopt}), {0, 0});
  }
  CHECK(rewards_are_equal(Rewards{std::nullopt, 1, 1}));
  CHECK(!rewards_are_equal(Rewards{std::nullopt, 1, 2}));
}

TEST_CASE("advantages: reinforce++ is normalised over the tokens of the step, however ranks share them") {
  check_near(group_advantages(settings_for("reinforce++"), Rewards{1, 2, 6}), {-2, -1, 3});
  // Tokens with advantages -1, -1, 3: mean 1/3, variance (16/9 + 16/9 + 64/9) / 2 = 16/3.
  AdvantageSums sums;
  sums.add(-1, 2), sums.add(3, 1);
  CHECK(normalised_advantage(-1, sums) == doctest::Approx(-4.0 / 3 / std::sqrt(16.0 / 3)));
  CHECK(normalised_advantage(3, sums) == doctest::Approx(8.0 / 3 / std::sqrt(16.0 / 3)));
  CHECK(normalised_advantage(3, AdvantageSums()) == 0);
}
