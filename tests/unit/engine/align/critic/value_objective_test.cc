#include "engine/align/critic/value_objective.h"

#include <doctest/doctest.h>

#include "engine/align/policy_objective.h"
#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

// Four answers whose returns are a little beside their values now, and whose values when they were drawn were others.
BatchStorage valued_answers(test::TrainingSetup& setup) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  std::vector<float> values(batch.ids.size());
  setup.model.forward(setup.context, 0, batch.view());
  setup.model.token_losses(setup.context, 0, values);
  for (std::size_t t = 0; t < values.size(); ++t) {
    batch.values.push_back(values[t] + (t % 3 == 0 ? 0.5F : -0.1F));
    batch.returns.push_back(values[t] + (t % 2 == 0 ? 0.4F : -0.3F));
  }
  for (int answer = 0; answer < 4; ++answer)
    for (const double field : {0.0, answer == 3 ? 0.0 : 0.25, 1.0, 0.0}) batch.per_sequence.push_back(field);
  return batch;
}

}  // namespace

TEST_CASE("an objective of values learns from every token of an answer, and from none of one that does not count") {
  test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(test::training_shape()));
  BatchStorage batch = valued_answers(setup);
  ValueObjective objective(0.2);
  objective.forward(setup.context, setup.model, 0, batch);
  const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
  CHECK(sums.count == 4);
  CHECK(sums.loss > 0);
  CHECK(sums.extra[0] > 0.1);
  for (std::size_t t = 48; t < 64; ++t) batch.returns[t] += 100;  // of the answer that does not count
  objective.forward(setup.context, setup.model, 0, batch);
  CHECK(objective.evaluate(setup.context, setup.model, 0, batch).loss == sums.loss);
}

TEST_CASE("the gradient by the weights of an objective of values agrees with finite differences of its loss") {
  for (const double bound : {0.0, 0.2}) {
    test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(test::training_shape()));
    const BatchStorage batch = valued_answers(setup);
    ValueObjective objective(bound);
    test::check_gradient(setup, objective, batch);
  }
}
