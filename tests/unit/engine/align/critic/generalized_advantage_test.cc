#include "engine/align/critic/generalized_advantage.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"

using namespace longhaul;

// NeMo-Aligner, nemo_aligner/utils/tests/ppo_utils_test.py.
TEST_CASE("generalized advantages have NeMo-Aligner's values, and returns are advantages and values") {
  const double rewards[] = {0, 0, 1, 0}, values[] = {0, 1, 2, 3};
  const TokenAdvantages credit = generalized_advantages(0.5, 0, rewards, values);
  CHECK(credit.advantages == std::vector<double>{0.5, 0, 0.5, -3});
  CHECK(credit.returns == std::vector<double>{0.5, 1, 2.5, 0});
}

TEST_CASE("with lambda 1 a return is the discounted sum of the rewards that came, whatever the values") {
  const Philox random{5, 1};
  double rewards[6], values[6];
  for (std::uint64_t t = 0; t < 6; ++t) rewards[t] = random.uniform_double(t), values[t] = random.uniform_double(6 + t);
  const TokenAdvantages credit = generalized_advantages(0.9, 1, rewards, values);
  double later = 0;
  for (std::size_t t = 6; t-- > 0;) {
    later = rewards[t] + 0.9 * later;
    CHECK(credit.returns[t] == doctest::Approx(later));
    CHECK(credit.advantages[t] == doctest::Approx(later - values[t]));
  }
}

// The definition (equation 16 of the paper): the sum over l of (gamma lambda)^l delta_{t+l}.
TEST_CASE("an advantage is the sum of what was not expected, discounted by gamma and lambda") {
  const double rewards[] = {0.3, -0.2, 0, 1.5}, values[] = {0.7, 0.1, -0.4, 0.9}, gamma = 0.97, lambda = 0.95;
  const TokenAdvantages credit = generalized_advantages(gamma, lambda, rewards, values);
  for (std::size_t t = 0; t < 4; ++t) {
    double sum = 0, weight = 1;
    for (std::size_t l = t; l < 4; ++l, weight *= gamma * lambda)
      sum += weight * (rewards[l] + (l + 1 < 4 ? gamma * values[l + 1] : 0) - values[l]);
    CHECK(credit.advantages[t] == doctest::Approx(sum));
  }
  CHECK(generalized_advantages(1, 1, {}, {}).advantages.empty());
}
