#include "engine/align/critic/token_reward.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace longhaul;

// NeMo-RL, tests/unit/algorithms/test_loss_functions.py: log-probabilities -1 of the model, 0, -15, -30 of the
// reference.
TEST_CASE("divergences have NeMo-RL's values: k1, k2, and k3 with verl's bounds") {
  const double log_ratios[] = {-1, 14, 29};
  const double k1[] = {-1, 14, 29}, k2[] = {0.5, 98, 420.5}, k3[] = {0.7183, 10, 10};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(divergence_estimate("k1", log_ratios[i]) == k1[i]);
    CHECK(divergence_estimate("k2", log_ratios[i]) == k2[i]);
    CHECK(divergence_estimate("k3", log_ratios[i]) == doctest::Approx(k3[i]).epsilon(1e-4));
  }
  CHECK(divergence_estimate("k3", 5) == doctest::Approx(std::exp(-5.0) + 4));  // 13 for 14 without the bound of 10
  CHECK(divergence_estimate("k3", -1000) == 10);
  for (const char* kind : {"k1", "k2", "k3"}) CHECK(divergence_estimate(kind, 0) == 0);
}

TEST_CASE("each token pays for its divergence, and the last has the answer's reward") {
  PpoSettings settings;
  const double drawn[] = {-1, -2, -0.5}, reference[] = {-1.5, -1, -0.5};
  double divergence = 10;
  const std::vector<double> rewards = token_rewards(settings, 0.1, drawn, reference, 2, &divergence);
  REQUIRE(rewards.size() == 3);
  CHECK(rewards[0] == doctest::Approx(-0.05));
  CHECK(rewards[1] == doctest::Approx(0.1));
  CHECK(rewards[2] == doctest::Approx(2));
  CHECK(divergence == doctest::Approx(9.5));
  settings.kl = "k2";
  CHECK(token_rewards(settings, 0.1, drawn, reference, 2)[1] == doctest::Approx(-0.05));
  CHECK(token_rewards(settings, 0.1, drawn, {}, 2) == std::vector<double>{0, 0, 2});
}

// verl, AdaptiveKLController: value *= 1 + clip(kl / target - 1, -0.2, 0.2) * n_steps / horizon.
TEST_CASE("beta follows the divergence by a fifth of the horizon's share at most, and stays without a target") {
  PpoSettings settings;
  CHECK(adapted_beta(settings, 0.05, 7, 512) == 0.05);
  settings.kl_target = 0.1;
  CHECK(adapted_beta(settings, 0.05, 0.11, 512) == doctest::Approx(0.05 * (1 + 0.1 * 0.0512)));
  CHECK(adapted_beta(settings, 0.05, 7, 512) == doctest::Approx(0.05 * (1 + 0.2 * 0.0512)));
  CHECK(adapted_beta(settings, 0.05, -1, 512) == doctest::Approx(0.05 * (1 - 0.2 * 0.0512)));
  CHECK(adapted_beta(settings, 0.05, 0.1, 512) == 0.05);
  settings.kl_horizon = 10;
  CHECK(adapted_beta(settings, 0.05, 0, 512) == 0);
}
