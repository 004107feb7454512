// DPO with adapters that stand before texts, or behind the layers of a model: what a fresh one changes, and gradients
// by the adapter against finite differences of the loss.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "engine/align/preference_objective.h"
#include "tests/unit/engine/train/training_setup.h"

namespace longhaul {
namespace {

namespace adapted_preference_test {

test::SetupOptions options_of(const char* kind) {
  test::SetupOptions options;
  options.adapter.kind = kind, options.adapter.virtual_tokens = 3, options.adapter.bottleneck_size = 6;
  return options;
}

struct AdaptedPairs {
  explicit AdaptedPairs(const char* kind) : setup(8, 20, 4, nullptr, DType::f32, 8, options_of(kind)) {
    REQUIRE(setup.source.fill(0, 4, batch).ok());
    settings.beta = 0.7;
    batch.per_sequence = said();
    batch.per_sequence.front() += 0.5;  // the model is not quite its reference
  }
  double loss() {
    PreferenceObjective objective(settings);
    setup.store.refresh_compute_copy(setup.context);  // the adapter may have been changed
    objective.forward(setup.context, setup.model, 0, batch);
    return objective.evaluate(setup.context, setup.model, 0, batch).loss;
  }
  // Log-probability of each answer.
  std::vector<double> said() {
    std::vector<float> token(batch.ids.size());
    setup.model.forward(setup.context, 0, batch.view());
    setup.model.token_losses(setup.context, 0, token);
    std::vector<double> sums(static_cast<std::size_t>(batch.sequences), 0.0);
    for (std::size_t t = 0; t < token.size(); ++t)
      if (batch.targets[t] >= 0) sums[t / static_cast<std::size_t>(batch.length)] -= static_cast<double>(token[t]);
    return sums;
  }
  // By the adapter's weights, in the layout of its store.
  std::vector<float> gradient() {
    PreferenceObjective objective(settings);
    std::vector<float> flat(static_cast<std::size_t>(setup.store.layout().flat_size()), NAN);
    GradientTarget trained;
    trained.flat = flat, trained.overwrite = true;
    objective.forward(setup.context, setup.model, 0, batch);
    objective.backward(setup.context, setup.model, 0, batch, setup.adapted->target(trained));
    return flat;
  }

  AlignSettings settings;
  test::TrainingSetup setup;
  BatchStorage batch;
};

TEST_CASE("a fresh bottleneck changes nothing: with the model without it as the reference DPO's loss is ln 2") {
  AdaptedPairs without("none"), with("bottleneck");
  with.batch.per_sequence = without.said();
  CHECK(with.loss() / 2 == doctest::Approx(std::numbers::ln2).epsilon(1e-6));  // of two pairs
  // As soon as what it adds is no longer nothing the loss is another.
  for (const FlatParameter& p : with.setup.store.layout().parameters())
    if (p.spec.name.find(".up.weight") != std::string::npos)
      for (std::int64_t i = p.begin; i < p.end; ++i) with.setup.store.masters()[static_cast<std::size_t>(i)] = 0.1F;
  CHECK(std::abs(with.loss() / 2 - std::numbers::ln2) > 1e-3);
}

TEST_CASE("the gradient of DPO by each parameter of an adapter agrees with finite differences of its loss") {
  for (const char* kind : {"prompt", "p-tuning", "prefix", "bottleneck"}) {
    CAPTURE(kind);
    AdaptedPairs pairs(kind);
    const std::vector<float> gradient = pairs.gradient();
    const std::span<float> weights = pairs.setup.store.masters();
    const std::vector<float> saved(weights.begin(), weights.end());
    int moved_parameters = 0;
    for (const FlatParameter& p : pairs.setup.store.layout().parameters()) {
      CAPTURE(p.spec.name);
      const auto begin = static_cast<std::size_t>(p.begin), end = static_cast<std::size_t>(p.end);
      double norm = 0;
      for (std::size_t i = begin; i < end; ++i) norm += std::pow(static_cast<double>(gradient[i]), 2);
      norm = std::sqrt(norm);
      REQUIRE(std::isfinite(norm));
      if (norm < 1e-3) continue;  // of D, as long as U is 0
      const auto moved = [&](double by) {
        for (std::size_t i = begin; i < end; ++i)
          weights[i] = saved[i] + static_cast<float>(by * static_cast<double>(gradient[i]) / norm);
        return pairs.loss();
      };
      constexpr double step = 2e-3;
      CHECK((moved(step) - moved(-step)) / (2 * step) == doctest::Approx(norm).epsilon(0.02));
      std::copy(saved.begin() + p.begin, saved.begin() + p.end, weights.begin() + p.begin);
      ++moved_parameters;
    }
    CHECK(moved_parameters >= (std::string(kind) == "prompt" ? 1 : 4));
  }
}

}  // namespace adapted_preference_test

}  // namespace
}  // namespace longhaul
