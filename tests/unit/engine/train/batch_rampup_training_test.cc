// A training whose batch grows: what each step reads, and that it goes on in the middle.
#include <doctest/doctest.h>

#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("each step trains the batch of its place in the order of samples, before and after it went on") {
  test::SetupOptions options;
  options.rampup = {4, 4, 40};
  const auto make = [&] { return std::make_unique<test::TrainingSetup>(16, 12, 2, nullptr, DType::f32, 32, options); };
  const auto whole = make();
  std::vector<double> losses;
  std::int64_t consumed = 0;
  for (int step = 0; step < 12; ++step) {
    const std::int64_t batch = global_batch_size_at(options.rampup, 16, consumed);
    const auto report = whole->trainer.step();
    REQUIRE(report.ok());
    CHECK(report->tokens == static_cast<double>(batch * 16));
    consumed += batch;
    CHECK(whole->trainer.progress().consumed_samples == consumed);
    losses.push_back(report->loss);
  }
  CHECK(consumed == samples_of_steps(options.rampup, 16, 12));

  const auto first = make(), second = make();
  for (int step = 0; step < 5; ++step) CHECK(first->trainer.step()->loss == losses[static_cast<std::size_t>(step)]);
  CHECK(first->trainer.progress().consumed_samples < 40);
  std::ranges::copy(first->store.masters(), second->store.masters().begin());
  std::ranges::copy(first->trainer.optimizer().exp_avg().memory().span<float>(),
                    second->trainer.optimizer().exp_avg().memory().span<float>().begin());
  std::ranges::copy(first->trainer.optimizer().exp_avg_sq().memory().span<float>(),
                    second->trainer.optimizer().exp_avg_sq().memory().span<float>().begin());
  second->trainer.progress() = first->trainer.progress();
  for (int step = 5; step < 12; ++step) CHECK(second->trainer.step()->loss == losses[static_cast<std::size_t>(step)]);
}
