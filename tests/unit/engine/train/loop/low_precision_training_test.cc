// Trainings in low precision: how far their losses are from f32, and that stopping and going on changes no bit.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/files/files.h"
#include "base/value/json.h"
#include "engine/train/loop/training_loop.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// Whole blocks of 32 everywhere.
ModelShape block_shape() {
  ModelShape shape = training_shape();
  shape.hidden_size = 64, shape.head_dim = 32, shape.num_attention_heads = 2, shape.num_key_value_heads = 2;
  shape.intermediate_size = 128;
  return shape;
}

SetupOptions options_of(const std::string& recipe, const std::string& element = "e2m3") {
  SetupOptions options(block_shape());
  options.low_precision.recipe = recipe, options.low_precision.mxfp6_element = element;
  options.low_precision.check_every_steps = 5, options.low_precision.amax_history = 4;
  options.low_precision.flushed_max = 1;  // MXFP4 flushes much
  return options;
}

double loss_after(int steps, const SetupOptions& options) {
  TrainingSetup setup(8, steps, 2, nullptr, DType::f32, 8, options);
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    const auto report = setup.trainer.step();
    REQUIRE(report.ok());
    if (step >= steps - 5) last += report->loss / 5;
  }
  return last;
}

}  // namespace

// It learns eight sequences by heart, and is looked at on the steep part of the curve, where noise shows most: twice
// the gaps that were found there (E2M3 0.008, E3M2 0.040, MXFP8 0.005, MXFP4 0.15, FP8 0.003), or the published bar.
TEST_CASE("losses of emulated formats stay near those of f32, and the finer format nearer") {
  constexpr int steps = 14;
  const double f32 = loss_after(steps, options_of("none"));
  CHECK(f32 < 1.5);  // of log 37 = 3.6: something was learnt
  struct Bar {
    const char *recipe, *element;
    double gap;
  };
  for (const Bar& bar : {Bar{"mxfp6", "e2m3", 0.04}, Bar{"mxfp6", "e3m2", 0.08}, Bar{"mxfp8", "", 0.06},
                         Bar{"mxfp4", "", 0.3}, Bar{"delayed", "", 0.06}, Bar{"current", "", 0.06}}) {
    const double low = loss_after(steps, options_of(bar.recipe, bar.element));
    CAPTURE(bar.recipe);
    CAPTURE(bar.element);
    CAPTURE(f32);
    CAPTURE(low);
    CHECK(low != f32);  // it was quantised at all
    CHECK(std::abs(low - f32) < bar.gap);
  }
}

TEST_CASE("recipe \"none\" and layers that are all kept give the same bits") {
  SetupOptions none(block_shape()), first = options_of("mxfp4");
  first.low_precision.first_layers_bf16 = 1, first.low_precision.last_layers_bf16 = 1;  // of two
  CHECK(loss_after(6, none) == loss_after(6, first));
  CHECK(loss_after(6, none) == loss_after(6, options_of("none")));
}

TEST_CASE("a layer beyond its limits is kept out, and the step says why") {
  SetupOptions options = options_of("mxfp4");
  options.low_precision.snr_min_db = 60;
  TrainingSetup setup(8, 6, 2, nullptr, DType::f32, 8, options);
  const auto report = setup.trainer.step();
  REQUIRE(report.ok());
  REQUIRE(report->verdicts.size() == 2);
  for (const LayerVerdict& verdict : report->verdicts) {
    CHECK(!verdict.low);
    CHECK(verdict.reason.find("below snr_min_db = 60") != std::string::npos);
  }
  CHECK(setup.trainer.step()->verdicts.empty());
  CHECK(loss_after(6, options) == loss_after(6, options_of("none")));
}

TEST_CASE("stopped after any step and gone on with: the bits of the training that went through") {
  constexpr int steps = 9;
  for (const char* recipe : {"delayed", "mxfp8", "current"}) {
    CAPTURE(recipe);
    const SetupOptions options = options_of(recipe);
    std::vector<double> through;
    TrainingSetup whole(8, steps, 2, nullptr, DType::f32, 8, options);
    for (int step = 0; step < steps; ++step) through.push_back(whole.trainer.step()->loss);
    for (const int stop : {1, 2, 5, 6}) {
      CAPTURE(stop);
      TrainingSetup before(8, steps, 2, nullptr, DType::f32, 8, options),
          after(8, steps, 2, nullptr, DType::f32, 8, options);
      for (int step = 0; step < stop; ++step) (void)before.trainer.step().ok();
      std::ranges::copy(before.store.masters(), after.store.masters().begin());
      const auto take = [](const StateArray& from, const StateArray& to) {
        std::memcpy(to.memory().data(), from.memory().data(), static_cast<std::size_t>(from.memory().bytes()));
      };
      take(before.trainer.optimizer().exp_avg(), after.trainer.optimizer().exp_avg());
      take(before.trainer.optimizer().exp_avg_sq(), after.trainer.optimizer().exp_avg_sq());
      after.trainer.progress() = before.trainer.progress();
      after.store.refresh_compute_copy(after.context);
      const Value text = parse_json(to_json(before.trainer.low_precision_state()), "state").value();
      REQUIRE(after.trainer.restore_low_precision(text).ok());
      for (int step = stop; step < steps; ++step)
        CHECK(after.trainer.step()->loss == through[static_cast<std::size_t>(step)]);
      CHECK(std::ranges::equal(after.store.masters(), whole.store.masters()));
    }
  }
}

TEST_CASE("models made anew between steps, as a restart in the process does, go on with scales and decisions") {
  const SetupOptions options = options_of("delayed");
  TrainingSetup whole(8, 8, 2, nullptr, DType::f32, 8, options), again(8, 8, 2, nullptr, DType::f32, 8, options);
  for (int step = 0; step < 4; ++step) CHECK(whole.trainer.step()->loss == again.trainer.step()->loss);
  again.trainer.leave();
  again.stages = again.make_stages(2, options);
  again.trainer.join(again.pointers());
  again.store.refresh_compute_copy(again.context);
  for (int step = 4; step < 8; ++step) CHECK(whole.trainer.step()->loss == again.trainer.step()->loss);
}

TEST_CASE("a training that goes on from its checkpoint ends with the bits of the one that went through") {
  char name[] = "/tmp/longhaul-low-precision-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const std::atomic<bool> stop{false};
  // 12 steps with a checkpoint after every third, from `start` on.
  const auto weights_of = [&](const SetupOptions& options, const std::string& in, const std::string& start) {
    TrainingSetup setup(4, 12, 2, nullptr, DType::f32, 64, options);
    EventWriter events(clock, folder + "/" + in + ".jsonl", 0);
    CheckpointStore store(clock, folder + "/" + in, 100);
    TrainingLoopOptions loop_options;
    loop_options.checkpoint_every_steps = 3, loop_options.start_checkpoint = start;
    TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, nullptr, loop_options);
    REQUIRE(loop.restore(setup.context).ok());
    const auto outcome = loop.run(nullptr);
    REQUIRE(outcome.ok());
    CHECK(outcome->resumed_at == (start.empty() ? -1 : 6));
    return std::vector<float>(setup.store.masters().begin(), setup.store.masters().end());
  };
  for (const char* recipe : {"delayed", "mxfp8"}) {
    CAPTURE(recipe);
    const SetupOptions options = options_of(recipe);
    const std::vector<float> whole = weights_of(options, recipe, "");
    std::string sixth;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + recipe))
      if (entry.path().string().ends_with("6")) sixth = entry.path().string();
    REQUIRE(!sixth.empty());
    CHECK(weights_of(options, std::string(recipe) + "-again", sixth) == whole);
    // The verdicts are in the events, one of the first measurement and one of each fifth step.
    const std::string events = read_file(folder + "/" + recipe + ".jsonl").value();
    const auto count = [&](const std::string& text) {
      int found = 0;
      for (std::size_t at = events.find(text); at != std::string::npos; at = events.find(text, at + 1)) ++found;
      return found;
    };
    CHECK(count("\"kind\":\"low_precision\"") == 3);
    CHECK(count("computes in low precision from step") == 2);
  }
  std::filesystem::remove_all(folder);
}
