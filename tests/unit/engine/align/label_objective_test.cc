#include "engine/align/labels/label_objective.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

// Four answers, good and bad, each a little more or less likely than under its reference.
BatchStorage four_labelled(test::TrainingSetup& setup, double divergence) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  std::vector<float> token(batch.ids.size());
  setup.model.forward(setup.context, 0, batch.view());
  setup.model.token_losses(setup.context, 0, token);
  const double offsets[] = {0.8, -0.5, 0.3, -1.1};
  for (std::size_t sequence = 0; sequence < 4; ++sequence) {
    const double reference = answer_sum(batch, sequence, token).log_probability - offsets[sequence];
    for (const double number : {reference, sequence % 2 == 0 ? 1.0 : 0.0, divergence})
      batch.per_sequence.push_back(number);
  }
  return batch;
}

AlignSettings kto_settings() {
  AlignSettings s;
  s.method = "kto", s.beta = 0.5, s.desirable_weight = 1.2, s.undesirable_weight = 0.7;
  return s;
}

}  // namespace

TEST_CASE("an objective of labels sums the losses of its answers and says on which side they are") {
  test::TrainingSetup setup(8, 20, 4);
  const AlignSettings settings = kto_settings();
  const BatchStorage batch = four_labelled(setup, 0.4);
  LabelObjective objective(settings);
  objective.forward(setup.context, setup.model, 0, batch);
  const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
  double loss = 0;
  for (const auto& [ratio, good] : {std::pair{0.8, true}, {-0.5, false}, {0.3, true}, {-1.1, false}})
    loss += kto_loss(settings, ratio, 0.4, good).loss;
  CHECK(sums.loss == doctest::Approx(loss).epsilon(1e-4));
  CHECK(sums.count == 4);
  CHECK(sums.extra[0] == 3);  // the third is good, and below the divergence
  CHECK(sums.extra[1] == doctest::Approx(0.8 + 0.5 + 0.3 + 1.1).epsilon(1e-4));
  CHECK(sums.extra[2] == doctest::Approx(1.6));
}

TEST_CASE("the gradient by the weights of an objective of labels agrees with finite differences of its loss") {
  test::TrainingSetup setup(8, 20, 4);
  const BatchStorage batch = four_labelled(setup, 0.4);
  LabelObjective objective(kto_settings());
  test::check_gradient(setup, objective, batch);
}
