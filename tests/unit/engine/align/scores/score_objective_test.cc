#include "engine/align/scores/score_objective.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/align/scores/bradley_terry.h"
#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

// Two pairs of texts of 16 tokens at most; behind the last token of each stands padding.
BatchStorage scored_pairs(test::TrainingSetup& setup) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  const std::size_t lengths[] = {16, 9, 3, 12};
  batch.targets.assign(batch.ids.size(), padding_target);
  for (std::size_t row = 0; row < 4; ++row) {
    std::fill_n(batch.targets.begin() + static_cast<std::ptrdiff_t>(16 * row), lengths[row], no_target);
    batch.targets[16 * row + lengths[row] - 1] = 0;
  }
  batch.per_sequence = {0.5, 0, 0, 0};
  return batch;
}

RewardModelSettings centred_settings() {
  RewardModelSettings settings;
  settings.center_weight = 0.1;
  return settings;
}

}  // namespace

TEST_CASE(
    "an objective of reward models reads the number of each text's last token and says what became of the pairs") {
  for (const ModelShape& shape : {test::training_shape(), test::training_gpt2_shape()}) {
    test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(shape));
    const BatchStorage batch = scored_pairs(setup);
    ScoreObjective objective(centred_settings());
    objective.forward(setup.context, setup.model, 0, batch);
    const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
    std::vector<float> scores(batch.ids.size());
    setup.model.token_losses(setup.context, 0, scores);
    const auto at = [&](std::size_t t) { return static_cast<double>(scores[t]); };
    const double chosen[] = {at(15), at(32 + 2)}, rejected[] = {at(16 + 8), at(48 + 11)};
    CHECK(chosen[0] != rejected[0]);
    CHECK(sums.loss == doctest::Approx(bradley_terry_loss(chosen[0], rejected[0], 0.5, 0.1).loss +
                                       bradley_terry_loss(chosen[1], rejected[1], 0, 0.1).loss));
    CHECK(sums.count == 2);
    CHECK(sums.tokens == 40);
    CHECK(sums.computed == 64);
    CHECK(sums.extra[0] == (chosen[0] > rejected[0] ? 1 : 0) + (chosen[1] > rejected[1] ? 1 : 0));
    CHECK(sums.extra[1] == doctest::Approx(chosen[0] - rejected[0] + chosen[1] - rejected[1]));
    CHECK(sums.extra[2] == doctest::Approx(chosen[0] + chosen[1]));
    CHECK(sums.extra[3] == doctest::Approx(rejected[0] + rejected[1]));
  }
}

TEST_CASE("the gradient of a reward model by all of its weights agrees with finite differences of its loss") {
  for (const ModelShape& shape : {test::training_shape(), test::training_gpt2_shape()}) {
    test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(shape));
    const BatchStorage batch = scored_pairs(setup);
    ScoreObjective objective(centred_settings());
    std::vector<float> gradient = test::check_gradient(setup, objective, batch, 2e-3, scalar_head_name).gradient;
    // A second backward adds.
    const std::vector<float> once = gradient;
    const FlatParameter& head = setup.store.layout().find(scalar_head_name);
    GradientTarget target;
    target.flat = gradient;
    objective.forward(setup.context, setup.model, 0, batch);
    objective.backward(setup.context, setup.model, 0, batch, target);
    for (std::int64_t i = head.begin; i < head.end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(gradient[at] == doctest::Approx(2 * static_cast<double>(once[at])));
    }
  }
}
