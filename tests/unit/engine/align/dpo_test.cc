#include "engine/align/dpo.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "engine/align/dpo_objective.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("DPO loss: beta 0 and an unmoved policy give ln 2, and it falls as the margin grows") {
  CHECK(dpo_loss({0.0, 0}, {-5, -50, -6, -7}).loss == doctest::Approx(std::log(2.0)));
  CHECK(dpo_loss({0.1, 0}, {-5, -8, -5, -8}).loss == doctest::Approx(std::log(2.0)));
  // By hand: margin = (-4 + 5) - (-9 + 8) = 2, loss = log(1 + exp(-0.2)).
  const DpoLoss loss = dpo_loss({0.1, 0}, {-4, -9, -5, -8});
  CHECK(loss.margin == doctest::Approx(2.0));
  CHECK(loss.loss == doctest::Approx(std::log1p(std::exp(-0.2))));
  // Far out it neither overflows nor loses its slope.
  CHECK(dpo_loss({1, 0}, {-2000, 0, 0, 0}).loss == doctest::Approx(2000.0));
  CHECK(dpo_loss({1, 0}, {0, -2000, 0, 0}).loss == doctest::Approx(0.0));
  // Smoothing of one half does not care which answer is right.
  CHECK(dpo_loss({0.3, 0.5}, {-4, -9, -5, -8}).loss == doctest::Approx(dpo_loss({0.3, 0.5}, {-9, -4, -8, -5}).loss));
}

TEST_CASE("DPO gradient agrees with finite differences") {
  for (const double smoothing : {0.0, 0.1}) {
    const DpoSettings settings{0.5, smoothing};
    const DpoPair pair{-4.2, -9.1, -5.0, -8.5};
    const double h = 1e-6;
    DpoPair up = pair, down = pair;
    up.chosen += h, down.chosen -= h;
    CHECK(dpo_loss(settings, pair).d_chosen ==
          doctest::Approx((dpo_loss(settings, up).loss - dpo_loss(settings, down).loss) / (2 * h)).epsilon(1e-6));
    up = down = pair;
    up.rejected += h, down.rejected -= h;
    CHECK(dpo_loss(settings, pair).d_rejected ==
          doctest::Approx((dpo_loss(settings, up).loss - dpo_loss(settings, down).loss) / (2 * h)).epsilon(1e-6));
  }
}

TEST_CASE("the DPO objective's weight gradient agrees with finite differences of its loss") {
  for (const bool per_token : {false, true}) {
    CAPTURE(per_token);
    AlignSettings settings;
    settings.beta = 0.7, settings.sft_weight = 0.3, settings.label_smoothing = 0.1,
    settings.length_normalized = per_token;
    DpoObjective objective(settings);
    test::TrainingSetup setup(8, 20, 4);
    BatchStorage batch;
    REQUIRE(setup.source.fill(0, 4, batch).ok());
    batch.per_sequence = {-50, -52, -49, -51};
    std::vector<float> gradient(static_cast<std::size_t>(setup.store.layout().flat_size()));
    GradientTarget target;
    target.flat = gradient, target.overwrite = true;
    objective.forward(setup.context, setup.model, 0, batch);
    const ObjectiveSums sums = objective.backward(setup.context, setup.model, 0, batch, target);
    CHECK(sums.count == 2);
    const auto loss = [&] {
      objective.forward(setup.context, setup.model, 0, batch);
      return objective.evaluate(setup.context, setup.model, 0, batch).loss;
    };
    CHECK(loss() == doctest::Approx(sums.loss));
    // Along the gradient itself the loss must rise by |g| per unit.
    double norm = 0;
    for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
    norm = std::sqrt(norm);
    const double step = 2e-3;
    const std::vector<float> saved(setup.store.masters().begin(), setup.store.masters().end());
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < saved.size(); ++i)
        setup.store.masters()[i] = saved[i] + static_cast<float>(by * static_cast<double>(gradient[i]) / norm);
      return loss();
    };
    CHECK((moved(step) - moved(-step)) / (2 * step) == doctest::Approx(norm).epsilon(0.01));
  }
}
