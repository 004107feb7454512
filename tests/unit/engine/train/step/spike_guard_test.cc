// Bad steps: what counts as one, what follows, and that a training that went on judges as one that never stopped.
#include "engine/train/step/spike_guard.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/value/json.h"
#include "engine/train/loop/training_loop.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

SpikeSettings spikes_of(const std::string& action, double sigma = 0, double ratio = 0) {
  SpikeSettings settings;
  settings.action = action, settings.sigma = sigma, settings.ratio = ratio, settings.window = 8;
  return settings;
}

// A training with a checkpoint folder and a loop of its own.
struct GuardedTraining {
  explicit GuardedTraining(const SpikeSettings& policy, std::int64_t bad_sample, const std::string& in = {},
                           int every = 3)
      : setup(4, 12, 2, nullptr, DType::f32, 64, with(policy)), events(clock, "", 0) {
    if (in.empty()) {
      std::string name = (std::filesystem::temp_directory_path() / "longhaul-spikes-XXXXXX").string();
      own = ::mkdtemp(name.data());
    }
    setup.source.bad_sample = bad_sample;
    store = std::make_unique<CheckpointStore>(clock, in.empty() ? own : in, 100);
    TrainingLoopOptions options;
    options.checkpoint_every_steps = every;
    loop =
        std::make_unique<TrainingLoop>(clock, setup.trainer, setup.objective, *store, events, stop, nullptr, options);
  }
  ~GuardedTraining() {
    if (!own.empty()) std::filesystem::remove_all(own);
  }
  static test::SetupOptions with(const SpikeSettings& policy) {
    test::SetupOptions options;
    options.on_spike = policy;
    return options;
  }
  std::vector<float> weights() const { return {setup.store.masters().begin(), setup.store.masters().end()}; }

  test::TrainingSetup setup;
  SystemClock clock;
  EventWriter events;
  std::atomic<bool> stop{false};
  std::string own;
  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<TrainingLoop> loop;
};

}  // namespace

TEST_CASE("a spike is judged against the steps before it, once half a window was seen") {
  SpikeGuard guard(spikes_of("skip", 3));
  for (const double loss : {4.0, 4.2, 3.8}) {
    CHECK(guard.problem(400, 1).empty());
    guard.accept(loss, 1 + loss / 10);
  }
  guard.accept(4.0, 1.4);  // mean 4, deviation sqrt(0.02)
  CHECK(guard.problem(4.0 + 3 * std::sqrt(0.02) - 1e-6, 1.4).empty());
  CHECK(guard.problem(4.0 + 3 * std::sqrt(0.02) + 1e-6, 1.4).find("the loss 4.42") != std::string::npos);
  CHECK(guard.problem(4.0, 2.0).find("the gradient's norm 2 is") != std::string::npos);
  CHECK(guard.problem(0.1, 0.1).empty());  // better is no spike
  CHECK(guard.problem(std::nan(""), 1).find("the loss is nan") != std::string::npos);
  CHECK(guard.problem(4, INFINITY).find("norm is inf") != std::string::npos);

  SpikeGuard by_ratio(spikes_of("skip", 0, 2));
  for (int i = 0; i < 100; ++i) by_ratio.accept(i < 50 ? 100.0 : 3.0, 1);
  CHECK(by_ratio.problem(5.9, 1).empty());  // the window knows nothing of the first fifty
  CHECK(by_ratio.problem(6.0, 1).empty());  // as much as is allowed
  CHECK(by_ratio.problem(6.1, 1).find("2.03 times 3, the mean of 8 steps") != std::string::npos);
  CHECK(SpikeGuard(spikes_of("skip")).problem(1e30, 1e30).empty());
}

TEST_CASE("what a judgement rests on goes through a checkpoint's text bit for bit; damage is refused") {
  SpikeGuard guard(spikes_of("skip", 3));
  for (int i = 0; i < 20; ++i) guard.accept(1.0 / (3 + i), std::sqrt(2.0 + i));
  CHECK(guard.spend(20));
  SpikeGuard again(spikes_of("skip", 3));
  REQUIRE(again.restore(parse_json(to_json(guard.state()), "state").value()).ok());
  CHECK(again.state() == guard.state());
  Value damaged = guard.state();
  damaged.set("losses", "x");
  CHECK(again.restore(damaged).error().code == ErrorCode::corrupt);
  damaged = guard.state();
  damaged.find("losses")->as_array().pop_back();
  CHECK(again.restore(damaged).error().message().find("7 losses and 8 norms") != std::string::npos);
}

TEST_CASE("the budget counts the bad steps of the last so many") {
  SpikeSettings settings = spikes_of("skip");
  settings.budget = 2, settings.budget_steps = 10;
  SpikeGuard guard(settings);
  CHECK(guard.spend(1));
  CHECK(guard.spend(5));
  CHECK(guard.spend(11));  // that of step 1 is out of sight
  CHECK_FALSE(guard.spend(12));
}

TEST_CASE("stop: the error names step, loss, gradient and the first bad micro-batch") {
  GuardedTraining training(spikes_of("stop"), 11);  // step 3: samples 8 to 11, its second micro-batch
  const auto outcome = training.loop->run(nullptr);
  REQUIRE_FALSE(outcome.ok());
  const std::string message = outcome.error().message();
  CAPTURE(message);
  CHECK(message.find("step 3: the loss is nan (loss nan, gradient norm nan, the first such micro-batch is 1, from "
                     "sample 10 on)") != std::string::npos);
  CHECK(training.setup.trainer.progress().step == 2);
  GuardedTraining behind_a_rollback(spikes_of("stop"), 19);
  behind_a_rollback.setup.trainer.skipped_samples() = 8;
  const auto later = behind_a_rollback.loop->run(nullptr);
  REQUIRE_FALSE(later.ok());
  CHECK(later.error().message().find("step 3: ") != std::string::npos);
  CHECK(later.error().message().find("from sample 18 on)") != std::string::npos);
}

TEST_CASE("skip: the update is left out, the data is used up, everything else goes on") {
  GuardedTraining training(spikes_of("skip"), 11);
  std::vector<float> before;
  training.setup.trainer.hooks.on_micro_batch = nullptr;
  for (int step = 1; step <= 3; ++step) {
    if (step == 3) before = training.weights();
    const auto report = training.setup.trainer.step();
    REQUIRE(report.ok());
    CHECK((report->end == StepEnd::skipped) == (step == 3));
  }
  CHECK(training.weights() == before);
  CHECK(training.setup.trainer.progress().step == 3);
  CHECK(training.setup.trainer.progress().adam_step == 2);
  CHECK(training.setup.trainer.progress().consumed_samples == 12);
  const auto outcome = training.loop->run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->step == 12);
  CHECK(std::isfinite(outcome->loss));
}

TEST_CASE("rollback: back to the last checkpoint, and the data since is left out") {
  GuardedTraining training(spikes_of("rollback"), 19);  // step 5: samples 16 to 19; the checkpoint is of step 3
  const auto outcome = training.loop->run(nullptr);
  REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
  CHECK(outcome->step == 12);
  CHECK(outcome->rollbacks == 1);
  CHECK(training.setup.trainer.progress().consumed_samples == 48);
  CHECK(training.setup.trainer.skipped_samples() == 8);
  // As a training that never had those samples: three steps, then samples 20 and on.
  GuardedTraining expected(spikes_of("stop"), -1);
  for (int step = 1; step <= 12; ++step) {
    if (step == 4) expected.setup.trainer.skipped_samples() = 8;
    REQUIRE(expected.setup.trainer.step().ok());
  }
  CHECK(training.weights() == expected.weights());

  GuardedTraining nothing(spikes_of("rollback"), 3);  // before the first checkpoint
  const auto stopped = nothing.loop->run(nullptr);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().message().find("there is no checkpoint to roll back to") != std::string::npos);
}

TEST_CASE("a training that goes on from a checkpoint behind a rollback, or with a window, ends with the same bits") {
  for (const char* action : {"rollback", "skip"}) {
    CAPTURE(action);
    const SpikeSettings policy = spikes_of(action, 4, 3);
    GuardedTraining whole(policy, 19);
    REQUIRE(whole.loop->run(nullptr).ok());
    // A checkpoint between two regular ones is one to roll back to: stopped there, another training comes out.
    const bool back = std::string(action) == "rollback";
    for (const std::int64_t stop_after :
         back ? std::vector<std::int64_t>{3, 6, 9} : std::vector<std::int64_t>{4, 7, 10}) {
      CAPTURE(stop_after);
      GuardedTraining first(policy, 19);
      first.setup.trainer.hooks.on_micro_batch = nullptr;
      HeartbeatPage page = HeartbeatPage::create(beat_page_path(first.own, 0), 0).value();
      HeartbeatPage worker = HeartbeatPage::open(beat_page_path(first.own, 0)).value();
      worker.order_stop_after(stop_after);
      TrainingLoopOptions options;
      options.checkpoint_every_steps = 3;
      TrainingLoop loop(first.clock, first.setup.trainer, first.setup.objective, *first.store, first.events, first.stop,
                        &page, options);
      REQUIRE(loop.run(nullptr).ok());
      GuardedTraining second(policy, 19, first.own);
      const auto restored = second.loop->restore(second.setup.context);
      REQUIRE(restored.ok());
      REQUIRE(*restored);
      REQUIRE(second.loop->run(nullptr).ok());
      CHECK(second.weights() == whole.weights());
      CHECK(second.setup.trainer.spike_guard().state() == whole.setup.trainer.spike_guard().state());
    }
  }
}

TEST_CASE("more bad steps than the budget stop the training and say so") {
  SpikeSettings policy = spikes_of("skip");
  policy.budget = 0;
  GuardedTraining training(policy, 11);
  const auto outcome = training.loop->run(nullptr);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message().find("more than 0 such steps within 1000") != std::string::npos);
}
