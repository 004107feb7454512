// The gradient of an objective against finite differences of its loss: along the gradient itself the loss has to rise
// by |g| per unit.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/engine/train/training_setup.h"

namespace longhaul::test {

struct CheckedGradient {
  ObjectiveSums sums;           // of the backward pass
  std::vector<float> gradient;  // in the layout of the setup's store
};

// By all weights together and, where a parameter is named, by that one alone. The weights are as before afterwards.
inline CheckedGradient check_gradient(TrainingSetup& setup, Objective& objective, const BatchStorage& batch,
                                      double step = 2e-3, const std::string& alone = {}) {
  CheckedGradient made;
  std::vector<float>& gradient = made.gradient;
  gradient.assign(static_cast<std::size_t>(setup.store.layout().flat_size()), NAN);  // each of them has to be written
  GradientTarget target;
  target.flat = gradient, target.overwrite = true;
  objective.forward(setup.context, setup.model, 0, batch);
  made.sums = objective.backward(setup.context, setup.model, 0, batch, target);
  const auto loss = [&] {
    objective.forward(setup.context, setup.model, 0, batch);
    return objective.evaluate(setup.context, setup.model, 0, batch).loss;
  };
  CHECK(loss() == doctest::Approx(made.sums.loss));
  std::vector<std::pair<std::size_t, std::size_t>> ranges = {{0, gradient.size()}};
  if (!alone.empty()) {
    const FlatParameter& parameter = setup.store.layout().find(alone);
    ranges.emplace_back(static_cast<std::size_t>(parameter.begin), static_cast<std::size_t>(parameter.end));
  }
  const std::vector<float> saved(setup.store.masters().begin(), setup.store.masters().end());
  for (const auto& range : ranges) {
    double norm = 0;
    for (std::size_t i = range.first; i < range.second; ++i) norm += std::pow(static_cast<double>(gradient[i]), 2);
    norm = std::sqrt(norm);
    REQUIRE(norm > 0);
    const auto moved = [&](double by) {
      for (std::size_t i = range.first; i < range.second; ++i)
        setup.store.masters()[i] = saved[i] + static_cast<float>(by * static_cast<double>(gradient[i]) / norm);
      return loss();
    };
    CHECK((moved(step) - moved(-step)) / (2 * step) == doctest::Approx(norm).epsilon(0.01));
    std::copy(saved.begin(), saved.end(), setup.store.masters().begin());
  }
  return made;
}

}  // namespace longhaul::test
