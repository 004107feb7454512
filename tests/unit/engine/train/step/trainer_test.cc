#include "engine/train/step/trainer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

#include "engine/comm/tree_sum.h"
#include "engine/train/gradients/gradient_tree.h"
#include "engine/train/optimizer/lr_schedule.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

// Samples of a source, of which some predict nothing: without targets, or with targets that weigh nothing.
class SilentSamples final : public BatchSource {
 public:
  SilentSamples(BatchSource& of, std::function<bool(std::int64_t)> silent, bool keep_targets = false)
      : of_(of), silent_(std::move(silent)), keep_targets_(keep_targets) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    LH_CHECK(of_.fill(first, count, out));
    for (std::int64_t k = 0; k < count; ++k) {
      if (!silent_(first + k)) continue;
      const auto from = static_cast<std::size_t>(k * out.length), to = from + static_cast<std::size_t>(out.length);
      for (std::size_t i = from; i < to; ++i) {
        out.weights[i] = 0.0F;
        if (!keep_targets_) out.targets[i] = -1;
      }
    }
    return {};
  }
  std::int64_t samples_per_epoch() const override { return of_.samples_per_epoch(); }

 private:
  BatchSource& of_;
  std::function<bool(std::int64_t)> silent_;
  bool keep_targets_;
};

// Each sample is two texts, as of a pair.
class TwoTexts final : public BatchSource {
 public:
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    return texts_.fill(2 * first, 2 * count, out);
  }
  std::int64_t samples_per_epoch() const override { return 8; }

 private:
  test::MadeUpSource texts_{16, 37, 16};
};

}  // namespace

TEST_CASE("the texts of a sample have masks of their own, however samples are cut into micro-batches") {
  test::SetupOptions what;
  what.dropout = 0.3;
  std::vector<double> losses;
  for (const std::int64_t micro_batch : {1, 2}) {
    test::TrainingSetup setup(8, 1, 2 * micro_batch, nullptr, DType::f32, 8, what);
    TwoTexts pairs;
    TrainerOptions options = setup.options;
    options.micro_batch_size = micro_batch, options.global_batch_size = 4;
    Trainer trainer(setup.context, setup.mesh, setup.store, setup.pointers(), setup.objective, pairs, options,
                    &setup.memory);
    const auto report = trainer.step();
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    losses.push_back(report->loss);
  }
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-6));
}

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

TEST_CASE("what a step says that it has waited is a part of its own time") {
  test::TrainingSetup setup(8, 20);
  const SystemClock clock;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t begun = clock.monotonic_ns();
    const auto report = setup.trainer.step();
    REQUIRE(report.ok());
    CHECK(report->waited_s >= 0);
    CHECK(report->waited_s <= 1e-9 * static_cast<double>(clock.monotonic_ns() - begun));
  }
}

TEST_CASE("a step says what it has waited for a rank that was late, and the next step says no more of it") {
  ParallelDims dims;
  dims.dp_replicate = 2;
  bool reported = false;
  for (int trial = 0; trial < 5 && !reported; ++trial) {  // another program may keep a thread from its core
    double first = 0, second = 0;
    test::on_threads(dims, [&](int rank, Mesh& mesh) {
      test::TrainingSetup setup(8, 20, 2, &mesh);
      bool late = rank == 1;
      setup.trainer.hooks.on_micro_batch = [&](std::int64_t, int) {
        if (std::exchange(late, false)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      };
      const auto one = setup.trainer.step(), next = setup.trainer.step();
      if (rank == 0 && one.ok() && next.ok()) first = one->waited_s, second = next->waited_s;
    });
    reported = first > 0.15 && second < first;
  }
  CHECK(reported);
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
  // After one step the first moment is (1 - beta1) times the gradient that AdamW has seen.
  const auto seen = [](Trainer& one) {
    double norm = 0;
    for (const float m : one.optimizer().exp_avg().memory().span<float>())
      norm += static_cast<double>(m) * static_cast<double>(m);
    return std::sqrt(norm) / (1 - 0.9);
  };
  CHECK(seen(trainer) == doctest::Approx(1e-4).epsilon(0.01));
  test::TrainingSetup whole(8, 20);
  whole.options.optimizer.clip_grad = 1e9;
  Trainer unclipped(whole.context, whole.mesh, whole.store, whole.pointers(), whole.objective, whole.source,
                    whole.options);
  const auto c = unclipped.step();
  REQUIRE(c.ok());
  CHECK(seen(unclipped) == doctest::Approx(c->grad_norm).epsilon(1e-5));
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

TEST_CASE("rows without a target, or whose targets weigh nothing, count for nothing; a batch of such rows is refused") {
  const auto is_second = [](std::int64_t k) { return k == 2 || k == 3; };  // a whole micro-batch
  const auto others = [&](std::int64_t k) { return !is_second(k); };
  test::TrainingSetup setup(8, 20);
  const auto sums = [&](const std::function<bool(std::int64_t)>& silent, bool keep_targets = false) {
    SilentSamples source(setup.source, silent, keep_targets);
    const auto found = setup.trainer.evaluate(source, 8);
    REQUIRE(found.ok());
    return *found;
  };
  const ObjectiveSums all = sums([](std::int64_t) { return false; }), without = sums(is_second), alone = sums(others);
  CHECK(without.count + alone.count == all.count);
  CHECK(alone.count > 0);
  CHECK(without.loss + alone.loss == doctest::Approx(all.loss).epsilon(1e-6));
  CHECK(sums(is_second, true).loss == doctest::Approx(without.loss).epsilon(1e-6));
  CHECK(sums(is_second, true).count == without.count);
  const ObjectiveSums none = sums([](std::int64_t) { return true; });
  CHECK(none.count == 0);
  CHECK(none.loss == 0);

  // Steps: the second of four micro-batches is silent, then the whole second batch.
  for (const bool keep_targets : {false, true}) {
    CAPTURE(keep_targets);
    test::TrainingSetup own(8, 20);
    SilentSamples source(own.source, [&](std::int64_t k) { return is_second(k) || k >= 8; }, keep_targets);
    Trainer trainer(own.context, own.mesh, own.store, own.pointers(), own.objective, source, own.options);
    const auto first = trainer.step();
    REQUIRE(first.ok());
    CHECK(first->loss == doctest::Approx(without.loss / without.count).epsilon(1e-6));
    CHECK(std::isfinite(first->grad_norm));
    CHECK(first->grad_norm > 0.1);
    const std::vector<float> before(own.store.masters().begin(), own.store.masters().end());
    const auto second = trainer.step();
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::invalid_input);
    CHECK(second.error().message().find("nothing to predict") != std::string::npos);
    CHECK(std::equal(before.begin(), before.end(), own.store.masters().begin()));
    CHECK(trainer.progress().step == 1);
  }
}

TEST_CASE("batch sizes that do not divide are refused with the nearest that do") {
  CHECK(check_batch_sizes(4, 32, 2).ok());
  const Status status = check_batch_sizes(4, 30, 2);
  CHECK(status.error().code == ErrorCode::invalid_input);
  CHECK(status.error().message().find("use 24 or 32") != std::string::npos);
}
