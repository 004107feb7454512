// Reward models of several numbers, and of several places of a text, as objectives: what is read, and gradients.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/align/scores/attribute_loss.h"
#include "engine/align/scores/attribute_objective.h"
#include "engine/align/scores/step_loss.h"
#include "engine/align/scores/step_objective.h"
#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

constexpr std::int64_t three = 3;

// Four texts of 16 tokens at most with three attributes, some without a value; behind each stands padding.
BatchStorage texts_with_values(test::TrainingSetup& setup) {
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  const std::size_t lengths[] = {16, 9, 3, 12};
  batch.targets.assign(batch.ids.size(), padding_target);
  for (std::size_t row = 0; row < 4; ++row) {
    std::fill_n(batch.targets.begin() + static_cast<std::ptrdiff_t>(16 * row), lengths[row], no_target);
    batch.targets[16 * row + lengths[row] - 1] = 0;
  }
  batch.per_sequence = {4, 0, NAN, NAN, 2, 1, 3, 3, 3, 0, NAN, 4};
  return batch;
}

// The same texts in steps, which end at the tokens given; the last step of each has no label.
BatchStorage texts_with_steps(test::TrainingSetup& setup) {
  BatchStorage batch = texts_with_values(setup);
  batch.per_sequence.clear();
  batch.returns.assign(batch.ids.size(), 0.0F);
  for (const std::size_t last : {15, 24, 34, 59}) batch.targets[last] = no_target;
  for (const auto& [at, label] : {std::pair{3, 1.0F}, {9, 0.0F}, {17, 0.25F}, {33, 1.0F}, {50, 0.0F}, {55, 1.0F}}) {
    batch.targets[static_cast<std::size_t>(at)] = 0;
    batch.returns[static_cast<std::size_t>(at)] = label;
  }
  return batch;
}

}  // namespace

TEST_CASE(
    "an objective of attributes reads as many numbers of each text's last token, and learns nothing where none is") {
  for (const ModelShape& shape : {test::training_shape(), test::training_gpt2_shape()}) {
    test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(shape, three));
    const FlatParameter& head = setup.store.layout().find(scalar_head_name);
    CHECK(head.end - head.begin == three * shape.hidden_size);
    BatchStorage batch = texts_with_values(setup);
    AttributeObjective objective(three);
    objective.forward(setup.context, setup.model, 0, batch);
    const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
    std::vector<float> numbers(batch.ids.size() * 3);
    setup.model.token_losses(setup.context, 0, numbers);
    double loss = 0, absolute = 0;
    const std::size_t last[] = {15, 24, 34, 59};
    for (std::size_t row = 0; row < 4; ++row) {
      const std::vector<double> own(numbers.begin() + static_cast<std::ptrdiff_t>(3 * last[row]),
                                    numbers.begin() + static_cast<std::ptrdiff_t>(3 * last[row] + 3));
      CHECK(own[0] != own[1]);
      const AttributeLoss one = attribute_loss(own, std::span(batch.per_sequence).subspan(3 * row, 3));
      loss += one.loss, absolute += one.absolute;
    }
    CHECK(sums.loss == doctest::Approx(loss));
    CHECK(sums.extra[0] == doctest::Approx(absolute));
    CHECK(sums.count == 9);
    CHECK(sums.tokens == 40);
    test::check_gradient(setup, objective, batch, 1e-3, scalar_head_name);
  }
}

TEST_CASE("an objective of steps reads the number of each token that ends a step with a label") {
  for (const ModelShape& shape : {test::training_shape(), test::training_gpt2_shape()}) {
    test::TrainingSetup setup(8, 20, 4, nullptr, DType::f32, 8, with_scalar_head(shape));
    BatchStorage batch = texts_with_steps(setup);
    StepObjective objective;
    objective.forward(setup.context, setup.model, 0, batch);
    const ObjectiveSums sums = objective.evaluate(setup.context, setup.model, 0, batch);
    std::vector<float> numbers(batch.ids.size());
    setup.model.token_losses(setup.context, 0, numbers);
    double loss = 0, right = 0, taken = 0;
    for (const auto& [at, label] : {std::pair{3, 1.0}, {9, 0.0}, {17, 0.25}, {33, 1.0}, {50, 0.0}, {55, 1.0}}) {
      const auto number = static_cast<double>(numbers[static_cast<std::size_t>(at)]);
      loss += step_loss(number, label).loss, taken += number > 0 ? 1 : 0;
      right += (number > 0) == (label >= 0.5) ? 1 : 0;
    }
    CHECK(sums.loss == doctest::Approx(loss));
    CHECK(sums.count == 6);
    CHECK(sums.extra[0] == right);
    CHECK(sums.extra[1] == taken);
    test::check_gradient(setup, objective, batch, 1e-3, scalar_head_name);
    batch.returns[15] = 9;  // of a token without a label
    objective.forward(setup.context, setup.model, 0, batch);
    CHECK(objective.evaluate(setup.context, setup.model, 0, batch).loss == sums.loss);
  }
}
