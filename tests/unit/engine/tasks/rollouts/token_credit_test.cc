#include "engine/tasks/rollouts/token_credit.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace longhaul;

namespace {

Rollout valued(std::vector<double> values, std::optional<double> reward) {
  Rollout rollout;
  rollout.drawn.assign(values.size(), -1.0), rollout.reference.assign(values.size(), -1.5);
  rollout.values = std::move(values), rollout.reward.value = reward;
  return rollout;
}

}  // namespace

TEST_CASE("tokens are credited with reward and divergence; an answer without a reward counts nowhere") {
  PpoSettings settings;
  settings.lambda = 1;
  std::vector<Rollout> rollouts = {valued({0.5, 0.25}, 1), valued({7, 7, 7}, std::nullopt), valued({0}, -1)};
  RolloutFigures figures;
  credit_tokens(settings, 0.1, rollouts, figures);
  // Each of the tokens pays 0.1 * 0.5.
  CHECK(rollouts[0].returns[0] == doctest::Approx(0.9));
  CHECK(rollouts[0].returns[1] == doctest::Approx(0.95));
  CHECK(rollouts[0].advantages[1] == doctest::Approx(0.7));
  CHECK(rollouts[1].advantages == std::vector<double>{0, 0, 0});
  CHECK(rollouts[2].advantages[0] == doctest::Approx(-1.05));
  CHECK(figures.divergence == doctest::Approx(1.5));
  CHECK(figures.advantages.tokens == 3);
  CHECK(figures.returns.sum == doctest::Approx(0.9 + 0.95 - 1.05));

  whiten_advantages(rollouts, figures.advantages);
  double sum = 0, squares = 0;
  for (const double a : {rollouts[0].advantages[0], rollouts[0].advantages[1], rollouts[2].advantages[0]})
    sum += a, squares += a * a;
  CHECK(sum == doctest::Approx(0).scale(1));
  CHECK(squares / 2 == doctest::Approx(1));
  CHECK(rollouts[1].advantages == std::vector<double>{0, 0, 0});
}

TEST_CASE("the last token of an answer gets its reward less what its length costs") {
  PpoSettings settings;
  settings.lambda = 1;
  std::vector<Rollout> rollouts = {valued({0, 0}, 1), valued({0}, std::nullopt)};
  rollouts[0].penalty = 0.25, rollouts[1].penalty = 0.25;
  RolloutFigures figures;
  credit_tokens(settings, 0, rollouts, figures);
  CHECK(rollouts[0].returns == std::vector<double>{0.75, 0.75});
  CHECK(!rollouts[1].shaped_reward());
  figures.count(rollouts[0]);
  CHECK(figures.rewards == 1);  // as it was judged
  CHECK(figures.penalties == 0.25);
  CHECK(figures.shaped == 1);
}

TEST_CASE("values explain all of the returns, some of them, or no more than a constant would") {
  PpoSettings settings;
  settings.lambda = 1;
  const auto explained = [&](double first, double second) {
    std::vector<Rollout> rollouts = {valued({first}, 1), valued({second}, 3)};
    RolloutFigures figures;
    credit_tokens(settings, 0, rollouts, figures);
    return explained_variance(figures);
  };
  CHECK(explained(1, 3) == doctest::Approx(1));
  CHECK(explained(5, 7) == doctest::Approx(1));  // what differs by a constant is explained
  CHECK(explained(0, 0) == doctest::Approx(0).scale(1));
  CHECK(explained(1, 2) == doctest::Approx(0.75));
  CHECK(explained_variance(RolloutFigures()) == 0);
}
