#include "engine/align/policy_objective.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

// Four answers with advantages of either sign, drawn by a model a little beside this one.
BatchStorage four_answers(test::TrainingSetup& setup, bool with_reference) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  std::vector<float> token(batch.ids.size());
  setup.model.forward(setup.context, 0, batch.view());
  setup.model.token_losses(setup.context, 0, token);
  for (const double advantage : {1.0, -0.5, 0.8, -1.2})
    for (const double field : {advantage, 0.25, advantage + 1, advantage > 0 ? 1.0 : 0.0})
      batch.per_sequence.push_back(field);
  for (std::size_t t = 0; t < token.size(); ++t) {
    batch.drawn.push_back(-token[t] + (t % 3 == 0 ? 0.1F : -0.05F));
    if (with_reference) batch.reference.push_back(-token[t] + (t % 2 == 0 ? 0.4F : -0.3F));
  }
  return batch;
}

AlignSettings objective_settings(double beta, const char* ratio) {
  AlignSettings s;
  s.method = "grpo", s.beta = beta, s.rollout.ratio = ratio;
  return s;
}

}  // namespace

TEST_CASE("an objective of rewards sums its answers' losses, rewards and divergences") {
  test::TrainingSetup setup(8, 20, 4);
  const BatchStorage batch = four_answers(setup, true);
  PolicyObjective objective(objective_settings(0.3, "token"), {});
  objective.forward(setup.context, setup.model, 0, batch);
  const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
  CHECK(sums.count == 4);
  CHECK(sums.extra[0] == doctest::Approx(4.1));
  CHECK(sums.extra[1] == 2);
  CHECK(sums.extra[2] > 0);
  CHECK(sums.extra[3] == 0);  // ratios within 0.2 of 1
}

TEST_CASE("an objective of rewards takes nothing from tokens without a target, such as those of an environment") {
  test::TrainingSetup setup(8, 20, 4);
  for (const auto& [ratio, cap] : {std::pair{"token", 0.0}, {"sequence", 0.0}, {"token", 2.0}}) {
    CAPTURE(ratio);
    CAPTURE(cap);
    BatchStorage batch = four_answers(setup, true);
    const BatchStorage whole = batch;
    const auto length = static_cast<std::size_t>(batch.length);
    for (std::size_t t = 0; t < batch.targets.size(); ++t)
      if (t % length / 4 == 1) batch.targets[t] = no_target, batch.weights[t] = 0;
    AlignSettings settings = objective_settings(0.3, ratio);
    settings.rollout.importance_cap = cap;
    PolicyObjective objective(settings, {});
    const auto learnt = [&](const BatchStorage& from) {
      std::vector<float> gradient(static_cast<std::size_t>(setup.store.layout().flat_size()));
      GradientTarget target;
      target.flat = gradient, target.overwrite = true;
      objective.forward(setup.context, setup.model, 0, from);
      return std::pair(objective.backward(setup.context, setup.model, 0, from, target), gradient);
    };
    const auto [sums, gradient] = learnt(batch);
    for (std::size_t t = 0; t < batch.targets.size(); ++t)
      if (batch.targets[t] < 0) batch.drawn[t] = 1e3F, batch.reference[t] = -1e3F;
    const auto [same, same_gradient] = learnt(batch);
    CHECK(sums.loss == same.loss);
    CHECK(sums.largest == same.largest);
    for (std::size_t i = 0; i < objective.extra_names().size(); ++i) CHECK(sums.extra[i] == same.extra[i]);
    CHECK(gradient == same_gradient);
    CHECK(gradient != learnt(whole).second);
  }
}

TEST_CASE("an objective of rewards with a bound of importance says the mean ratio and how many tokens were bounded") {
  test::TrainingSetup setup(8, 20, 4);
  const BatchStorage batch = four_answers(setup, false);
  AlignSettings settings = objective_settings(0, "token");
  settings.rollout.importance_cap = 1;  // the ratios are exp(-0.1) and exp(0.05)
  PolicyObjective objective(settings, {});
  CHECK(objective.extra_names() ==
        std::vector<std::string>{"reward", "accuracy", "kl", "clip_fraction", "importance_ratio"});
  CHECK(objective.largest_name() == "importance_ratio_max");
  objective.forward(setup.context, setup.model, 0, batch);
  const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
  CHECK(sums.largest == doctest::Approx(std::exp(0.05)).epsilon(1e-5));
  const double bounded = sums.extra[3];  // summed over four answers
  CHECK(bounded > 2);
  CHECK(bounded < 3.5);
  CHECK(sums.extra[4] == doctest::Approx(bounded * std::exp(0.05) + (4 - bounded) * std::exp(-0.1)).epsilon(1e-5));
}

TEST_CASE("the gradient by the weights of an objective of rewards agrees with finite differences of its loss") {
  for (const char* ratio : {"token", "sequence"})
    for (const double beta : {0.0, 0.3}) {
      CAPTURE(ratio);
      CAPTURE(beta);
      test::TrainingSetup setup(8, 20, 4);
      const BatchStorage batch = four_answers(setup, beta > 0);
      PolicyObjective objective(objective_settings(beta, ratio), {});
      test::check_gradient(setup, objective, batch);
    }
}
