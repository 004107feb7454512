#include "engine/align/policy_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/digest/philox.h"

using namespace longhaul;

namespace {

AlignSettings policy_settings(double beta = 0) {
  AlignSettings s;
  s.method = "grpo", s.beta = beta;
  return s;
}

PolicyLoss one_token(const AlignSettings& settings, double advantage, double drawn, double model) {
  return policy_loss(settings, {{&model, 1}, {&drawn, 1}, {}, advantage});
}

}  // namespace

// NeMo-RL, tests/unit/algorithms/test_loss_functions.py: advantages 1, -1, 2 and ratios 0.5, 1, 1.5.
TEST_CASE("the clipped surrogate has NeMo-RL's values, and no slope beyond the bound that counts") {
  const AlignSettings settings = policy_settings();
  const double low = std::log(0.5) - 1, high = std::log(1.5) - 1;
  const PolicyLoss first = one_token(settings, 1, -1, low), second = one_token(settings, -1, -1, -1),
                   third = one_token(settings, 2, -1, high);
  CHECK((first.loss + second.loss + third.loss) / 3 == doctest::Approx(-(0.5 - 1 + 2.4) / 3));
  CHECK((first.loss + second.loss + third.loss) / 3 == doctest::Approx(-0.6333).epsilon(1e-4));
  CHECK(first.clipped + second.clipped == 0);
  CHECK(third.clipped == 1);
  CHECK(third.slopes[0] == 0);
  CHECK(first.slopes[0] == doctest::Approx(-0.5));
  CHECK(second.slopes[0] == doctest::Approx(1));
  AlignSettings higher = settings;
  higher.rollout.clip_high = 0.28;  // DAPO
  CHECK(one_token(higher, 2, -1, high).loss == doctest::Approx(-2.56));
  CHECK(one_token(settings, -1, -1, high).clipped == 0);  // a worse answer that became likelier is not spared
  CHECK(one_token(settings, -1, -1, low).loss == doctest::Approx(0.8));
}

// NeMo-RL's test of the dual clip: advantages 1, -1, -4, ratios 0.5, 1, 10, c = 3.
TEST_CASE("a ratio of an answer with a negative advantage counts up to the dual bound, with NeMo-RL's values") {
  AlignSettings settings = policy_settings();
  const double far = std::log(10.0) - 1;
  CHECK(one_token(settings, -4, -1, far).loss == doctest::Approx(40));
  settings.rollout.dual_clip = 3;
  CHECK(one_token(settings, 1, -1, std::log(0.5) - 1).loss == doctest::Approx(-0.5));
  CHECK(one_token(settings, -1, -1, -1).loss == doctest::Approx(1));
  const PolicyLoss bounded = one_token(settings, -4, -1, far);
  CHECK(bounded.loss == doctest::Approx(12));
  CHECK(bounded.slopes[0] == 0);
  CHECK(bounded.clipped == 1);
}

TEST_CASE("tokens with advantages of their own are weighed by these") {
  const AlignSettings settings = policy_settings();
  const double model[] = {-1, -2, -0.3}, drawn[] = {-1.1, -1.9, -0.9}, advantages[] = {1, -0.5, 2};
  const PolicyLoss together = policy_loss(settings, {model, drawn, {}, 7, advantages});
  double loss = 0;
  for (std::size_t t = 0; t < 3; ++t) {
    const PolicyLoss one = one_token(settings, advantages[t], drawn[t], model[t]);
    loss += one.loss;
    CHECK(together.slopes[t] == one.slopes[0]);
  }
  CHECK(together.loss == doctest::Approx(loss));
  CHECK(together.clipped == 1);
}

// Ratios to what drew the answer 0.5, 1 and 10, and a bound of 2: weights 0.5, 1 and 2.
TEST_CASE("with a bound of importance tokens count by how likely they are now, and their ratio to the model is 1") {
  AlignSettings settings = policy_settings();
  settings.rollout.importance_cap = 2;
  const double model[] = {std::log(0.5) - 1, -1, std::log(10.0) - 1}, drawn[] = {-1, -1, -1};
  for (const double advantage : {1.5, -0.5}) {
    const PolicyLoss loss = policy_loss(settings, {model, drawn, {}, advantage});
    CHECK(loss.loss == doctest::Approx(-advantage * 3.5));
    CHECK(loss.slopes[0] == doctest::Approx(-advantage * 0.5));
    CHECK(loss.slopes[1] == doctest::Approx(-advantage));
    CHECK(loss.slopes[2] == doctest::Approx(-advantage * 2));
    CHECK(loss.clipped == 1);
    CHECK(loss.importance == doctest::Approx(11.5));
    CHECK(loss.importance_max == doctest::Approx(10));
  }
  CHECK(policy_loss(policy_settings(), {model, drawn, {}, 1}).importance == 0);
}

// Weights and the model of the ratio are held constant: the differences are those of the sum of
// -weight * exp(l - now) * A + beta * k3.
TEST_CASE("slopes under a bound of importance agree with finite differences of what is not held constant") {
  const Philox random{43, 1};
  AlignSettings settings = policy_settings(0.3);
  settings.rollout.importance_cap = 1.2;
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    const double advantage = trial % 2 == 0 ? 1.3 : -0.7;
    double model[5], drawn[5], reference[5];
    for (std::uint64_t t = 0; t < 5; ++t) {
      model[t] = -3 * random.uniform_double(trial * 15 + t);
      drawn[t] = model[t] + random.uniform_double(trial * 15 + 5 + t) - 0.5;
      reference[t] = -3 * random.uniform_double(trial * 15 + 10 + t);
    }
    const PolicyLoss at = policy_loss(settings, {model, drawn, reference, advantage});
    const auto loss = [&](std::size_t t, double by) {
      const double weight = std::min(std::exp(model[t] - drawn[t]), 1.2), x = reference[t] - model[t] - by;
      return -weight * std::exp(by) * advantage + 0.3 * (std::exp(x) - x - 1);
    };
    double sum = 0;
    for (std::size_t t = 0; t < 5; ++t) {
      sum += loss(t, 0);
      CHECK((loss(t, 1e-6) - loss(t, -1e-6)) / 2e-6 == doctest::Approx(at.slopes[t]).epsilon(1e-5).scale(1));
    }
    CHECK(at.loss == doctest::Approx(sum));
  }
}

TEST_CASE("the divergence is k3, with NeMo-RL's values where it does not end exponents") {
  const double model[] = {-1, -1}, drawn[] = {-1, -1}, reference[] = {0, -15};
  const PolicyLoss loss = policy_loss(policy_settings(0.5), {model, drawn, reference, 0});
  CHECK(loss.divergence == doctest::Approx(0.7183 + 13).epsilon(1e-4));
  CHECK(loss.loss == doctest::Approx(0.5 * (0.7183 + 13)).epsilon(1e-4));
  const double far[] = {-1, 60};  // exp would be 3e26
  CHECK(policy_loss(policy_settings(1), {model, drawn, far, 0}).divergence == doctest::Approx(std::exp(20.0) - 21));
}

// The mean of the logarithms above: (log 0.5 + log 1 + log 1.5) / 3.
TEST_CASE("the ratio of a whole answer is the geometric mean of its tokens' ratios, NeMo-RL's 0.9086") {
  AlignSettings settings = policy_settings();
  settings.rollout.ratio = "sequence";
  const double model[] = {-1.69315, -1, -0.59453}, drawn[] = {-1, -1, -1};
  const PolicyLoss loss = policy_loss(settings, {model, drawn, {}, 1});
  CHECK(loss.loss / 3 == doctest::Approx(-0.9086).epsilon(1e-4));
  for (const double slope : loss.slopes) CHECK(slope == doctest::Approx(-0.9086).epsilon(1e-4));
}

TEST_CASE("slopes agree with finite differences, of tokens and of whole answers, on both sides of the bounds") {
  const Philox random{42, 1};
  for (const char* ratio : {"token", "sequence"})
    for (const double advantage : {1.3, -0.7})
      for (std::uint64_t trial = 0; trial < 40; ++trial) {
        AlignSettings settings = policy_settings(0.3);
        settings.rollout.ratio = ratio;
        double model[5], drawn[5], reference[5];
        for (std::uint64_t t = 0; t < 5; ++t) {
          model[t] = -3 * random.uniform_double(trial * 15 + t);
          drawn[t] = model[t] + random.uniform_double(trial * 15 + 5 + t) - 0.5;
          reference[t] = -3 * random.uniform_double(trial * 15 + 10 + t);
        }
        const PolicyLoss at = policy_loss(settings, {model, drawn, reference, advantage});
        for (std::size_t t = 0; t < 5; ++t) {
          const double step = 1e-6, here = model[t];
          model[t] = here + step;
          const double above = policy_loss(settings, {model, drawn, reference, advantage}).loss;
          model[t] = here - step;
          const double below = policy_loss(settings, {model, drawn, reference, advantage}).loss;
          model[t] = here;
          CHECK((above - below) / (2 * step) == doctest::Approx(at.slopes[t]).epsilon(1e-5).scale(1));
        }
      }
}
