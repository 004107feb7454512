#include "engine/train/step/trainer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/comm/tree_sum.h"
#include "engine/train/gradients/gradient_tree.h"
#include "engine/train/optimizer/lr_schedule.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("the learning rate warms up, decays to its end, and never leaves its bounds") {
  OptimizerSettings s;
  s.lr = 1e-3, s.lr_min_ratio = 0.1, s.warmup_steps = 10;
  CHECK(learning_rate(s, 1, 100) == doctest::Approx(1e-4));
  CHECK(learning_rate(s, 10, 100) == doctest::Approx(1e-3));
  CHECK(learning_rate(s, 55, 100) == doctest::Approx(0.5 * (1e-3 + 1e-4)));
  CHECK(learning_rate(s, 100, 100) == doctest::Approx(1e-4));
  s.lr_schedule = "linear";
  CHECK(learning_rate(s, 55, 100) == doctest::Approx(0.5 * (1e-3 + 1e-4)));
  CHECK(learning_rate(s, 32, 100) == doctest::Approx(1e-3 - 9e-4 * 22 / 90));
  s.lr_schedule = "constant";
  CHECK(learning_rate(s, 99, 100) == 1e-3);
  s.warmup_steps = 1000;  // longer than the run: half of it is left
  CHECK(learning_rate(s, 50, 100) == doctest::Approx(1e-3));
  s.warmup_steps = 0;
  CHECK(learning_rate(s, 1, 1) == 1e-3);
}

TEST_CASE("the gradient tree adds every micro-batch once, in one order however blocks are cut") {
  const ComputeContext context(1);
  const std::int64_t size = 32;
  const auto value = [](int micro_batch, std::int64_t i) {
    return static_cast<float>(std::sin(static_cast<double>(micro_batch * 31 + i)) * std::pow(10.0, micro_batch % 5));
  };
  const auto write = [&](GradientTree& tree, int index, int micro_batch, FlatRange part) {
    const GradientTarget target = tree.target(index);
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      float& at = target.flat[static_cast<std::size_t>(i)];
      at = target.overwrite ? value(micro_batch, i) : at + value(micro_batch, i);
    }
  };
  const auto sum_block = [&](int first, int count) {
    const int counts[] = {64, count};  // of another step, and this one
    GradientTree tree(size, counts, true);
    tree.begin(count);
    for (int m = 0; m < count; ++m) {
      write(tree, m, first + m, {0, size});
      if (m + 1 < count) tree.add(context, m);
    }
    tree.accept(context, {0, size / 4}, count - 1);
    tree.accept(context, {size / 4, size}, count - 1);
    const std::span<float> sum = tree.sum();
    return std::vector<float>(sum.begin(), sum.end());
  };
  // One part two micro-batches ahead of the other.
  const auto sum_by_parts = [&](int first, int count) {
    const int counts[] = {count};
    GradientTree tree(size, counts, true);
    const FlatRange early{0, 5}, late{5, size};
    for (int m = 0; m < count + 2; ++m) {
      if (m < count) write(tree, m, first + m, early), tree.accept(context, early, m);
      if (m >= 2) write(tree, m - 2, first + m - 2, late), tree.accept(context, late, m - 2);
    }
    const std::span<float> sum = tree.sum();
    return std::vector<float>(sum.begin(), sum.end());
  };
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    CAPTURE(count);
    const std::vector<float> sum = sum_block(0, count);
    CHECK(sum_by_parts(0, count) == sum);
    for (std::int64_t i = 0; i < size; ++i) {
      double expected = 0;
      for (int m = 0; m < count; ++m) expected += static_cast<double>(value(m, i));
      CHECK(static_cast<double>(sum[static_cast<std::size_t>(i)]) ==
            doctest::Approx(expected).epsilon(1e-5).scale(1e4));
    }
  }
  for (const int count : {8, 12, 24, 40})
    for (const int ranks : {2, 4, 8}) {
      if (count % ranks != 0) continue;
      CAPTURE(count);
      CAPTURE(ranks);
      std::vector<std::vector<float>> blocks;
      for (int r = 0; r < ranks; ++r) blocks.push_back(sum_block(r * count / ranks, count / ranks));
      std::vector<const float*> parts;
      for (const std::vector<float>& block : blocks) parts.push_back(block.data());
      tree_sum(parts, blocks[0]);  // as an all-reduce adds the ranks' sums
      CHECK(blocks[0] == sum_block(0, count));
    }
}

TEST_CASE("a tiny batch is learnt by heart") {
  test::TrainingSetup setup(8, 60);
  const double first = setup.trainer.step()->loss;
  CHECK(first == doctest::Approx(std::log(37.0)).epsilon(0.15));
  double last = first;
  for (int i = 0; i < 59; ++i) last = setup.trainer.step()->loss;
  CHECK(last < 0.3);
}

TEST_CASE("gradient norm and clipping: what AdamW sees is the clipped mean gradient") {
  test::TrainingSetup free(8, 20), clipped(8, 20);
  clipped.options.optimizer.clip_grad = 1e-4;
  Trainer trainer(clipped.context, clipped.mesh, clipped.store, clipped.pointers(), clipped.objective, clipped.source,
                  clipped.options);
  const auto a = free.trainer.step(), b = trainer.step();
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->grad_norm == b->grad_norm);
  CHECK(a->grad_norm > 0.1);
  // After one step the first moment is (1 - beta1) times the clipped gradient.
  double norm = 0;
  for (const float m : trainer.optimizer().exp_avg().memory().span<float>())
    norm += static_cast<double>(m) * static_cast<double>(m);
  CHECK(std::sqrt(norm) / (1 - 0.9) == doctest::Approx(1e-4).epsilon(0.01));
}

TEST_CASE("micro-batches of another size give the same step") {
  test::TrainingSetup four(8, 20, 4), two(8, 20, 2);
  for (int i = 0; i < 10; ++i) {
    const double a = four.trainer.step()->loss, b = two.trainer.step()->loss;
    CHECK(std::abs(a - b) <= 1e-5 * a);
  }
}

TEST_CASE("a loss that is not finite stops the training with its step and leaves the weights alone") {
  test::TrainingSetup setup(8, 20);
  REQUIRE(setup.trainer.step().ok());
  const float saved = setup.store.masters()[40];
  setup.store.masters()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto report = setup.trainer.step();
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().message().find("step 2") != std::string::npos);
  CHECK(setup.store.masters()[40] == saved);
  CHECK(setup.trainer.progress().step == 1);
}

TEST_CASE("batch sizes that do not divide are refused with the nearest that do") {
  CHECK(check_batch_sizes(4, 32, 2).ok());
  const Status status = check_batch_sizes(4, 30, 2);
  CHECK(status.error().code == ErrorCode::invalid_input);
  CHECK(status.error().message().find("use 24 or 32") != std::string::npos);
}
