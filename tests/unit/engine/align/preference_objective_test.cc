#include "engine/align/preference_objective.h"

#include <doctest/doctest.h>

#include "contracts/settings/stages/alignment.h"
#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

AlignSettings settings_of(const AlignMethod& method, bool per_token) {
  AlignSettings s;
  s.method = method.name, s.beta = 0.7, s.length_normalized = per_token || method.per_token_only;
  if (method.label_smoothing) s.label_smoothing = 0.1;
  if (method.reward_margin) s.reward_margin = 0.3;
  if (!method.has_cross_entropy) s.sft_weight = 0.3;
  return s;
}

// Two pairs, and what a reference says of them where there is one.
BatchStorage two_pairs(test::TrainingSetup& setup, const AlignMethod& method) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  batch.per_sequence = {-50, -52, -49, -51};
  if (!method.reference) batch.per_sequence.assign(4, 0.0);
  return batch;
}

}  // namespace

TEST_CASE("an objective of preferences has the losses of its method and says what became of the answers") {
  test::TrainingSetup setup(8, 20, 4);
  for (const AlignMethod& method : align_methods()) {
    if (method.labels) continue;
    CAPTURE(method.name);
    const AlignSettings settings = settings_of(method, true);
    const BatchStorage batch = two_pairs(setup, method);
    PreferenceObjective objective(settings);
    objective.forward(setup.context, setup.model, 0, batch);
    const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
    std::vector<float> token(batch.ids.size());
    setup.model.token_losses(setup.context, 0, token);
    double loss = 0, margin = 0, right = 0;
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      double of[2], reference[2];
      for (std::size_t side = 0; side < 2; ++side) {
        double sum = 0, tokens = 0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(batch.length); ++t) {
          const std::size_t at = (pair + side) * static_cast<std::size_t>(batch.length) + t;
          if (batch.targets[at] >= 0) sum -= static_cast<double>(token[at]), tokens += 1;
        }
        of[side] = sum / tokens, reference[side] = batch.per_sequence[pair + side] / tokens;
      }
      loss += pair_loss_method(method.name).loss(settings, {of[0], of[1], reference[0], reference[1]}).loss;
      loss -= settings.sft_weight * of[0];
      const double difference = (of[0] - reference[0]) - (of[1] - reference[1]);
      margin += difference, right += difference > 0 ? 1 : 0;
    }
    CHECK(sums.loss == doctest::Approx(loss));
    CHECK(sums.extra[0] == right);
    CHECK(sums.extra[1] == doctest::Approx(margin));
    CHECK(sums.extra[2] - sums.extra[3] == doctest::Approx(settings.beta * margin));
  }
}

TEST_CASE("the gradient by the weights of every objective of preferences agrees with finite differences of its loss") {
  for (const AlignMethod& method : align_methods()) {
    if (method.labels) continue;
    CAPTURE(method.name);
    PreferenceObjective objective(settings_of(method, false));
    test::TrainingSetup setup(8, 20, 4);
    const BatchStorage batch = two_pairs(setup, method);
    CHECK(test::check_gradient(setup, objective, batch).sums.count == 2);
  }
}
