// What a training does when it is given an order from outside.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "engine/train/loop/training_loop.h"
#include "engine/train/optimizer/lr_schedule.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

struct OrderedTraining {
  explicit OrderedTraining(std::int64_t steps, const std::string& checkpoints_of = {}, int keep_last = 100,
                           std::int64_t steps_together = 1)
      : setup(4, steps), stop(false), events(clock, "", 0) {
    options.steps_together = steps_together;
    std::string name = (std::filesystem::temp_directory_path() / "longhaul-orders-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    auto created = HeartbeatPage::create(beat_page_path(folder, 0), 0);
    auto opened = HeartbeatPage::open(beat_page_path(folder, 0));
    REQUIRE(created.ok());
    REQUIRE(opened.ok());
    page = std::make_unique<HeartbeatPage>(std::move(created).value());
    worker = std::make_unique<HeartbeatPage>(std::move(opened).value());
    store = std::make_unique<CheckpointStore>(clock, checkpoints_of.empty() ? folder : checkpoints_of, keep_last);
    setup.trainer.hooks.on_micro_batch = nullptr;
    loop = std::make_unique<TrainingLoop>(clock, setup.trainer, setup.objective, *store, events, stop, page.get(),
                                          options);
  }
  ~OrderedTraining() { std::filesystem::remove_all(folder); }

  test::TrainingSetup setup;
  SystemClock clock;
  std::atomic<bool> stop;
  EventWriter events;
  std::string folder;
  TrainingLoopOptions options;
  std::unique_ptr<HeartbeatPage> page, worker;
  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<TrainingLoop> loop;
};

}  // namespace

TEST_CASE("orders: a checkpoint now, and the worker learns that it was saved") {
  OrderedTraining training(4);
  const std::int64_t order = training.worker->order_checkpoint();
  CHECK(training.worker->orders_obeyed() < order);
  const auto outcome = training.loop->run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->step == 4);
  CHECK(training.worker->orders_obeyed() == order);
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000004", "step-00000001"});
}

TEST_CASE("orders: a checkpoint that was ordered stays when later ones push out those that were not") {
  OrderedTraining training(6, {}, 2);
  training.worker->order_checkpoint();
  training.worker->order_checkpoint_interval(2);
  REQUIRE(training.loop->run(nullptr).ok());
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000006", "step-00000004", "step-00000001"});
  CHECK(is_pinned_checkpoint(training.store->path_of(1)));
  CHECK(!is_pinned_checkpoint(training.store->path_of(4)));
}

TEST_CASE("orders: stop-after ends the training well, with a checkpoint, before its last step") {
  OrderedTraining training(20);
  training.worker->order_stop_after(3);
  const auto outcome = training.loop->run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->shortened);
  CHECK(!outcome->stopped);
  CHECK(outcome->step == 3);
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000003"});

  OrderedTraining late(2);  // nothing to shorten
  late.worker->order_stop_after(5);
  const auto whole = late.loop->run(nullptr);
  REQUIRE(whole.ok());
  CHECK(!whole->shortened);
  CHECK(whole->step == 2);
}

TEST_CASE("orders: another checkpoint interval") {
  OrderedTraining training(7);
  training.worker->order_checkpoint_interval(3);
  REQUIRE(training.loop->run(nullptr).ok());
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000007", "step-00000006", "step-00000003"});
}

TEST_CASE("orders: steps that belong together are saved, and end, at the last of them") {
  OrderedTraining training(11, {}, 100, 4);
  const std::int64_t order = training.worker->order_checkpoint();
  training.worker->order_checkpoint_interval(5);  // due at 5 and at 10
  REQUIRE(training.loop->run(nullptr).ok());
  CHECK(training.worker->orders_obeyed() > order);
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000011", "step-00000008", "step-00000004"});
  CHECK(is_pinned_checkpoint(training.store->path_of(4)));
  CHECK(!is_pinned_checkpoint(training.store->path_of(8)));

  OrderedTraining shortened(20, {}, 100, 4);
  shortened.worker->order_stop_after(5);
  const auto outcome = shortened.loop->run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->shortened);
  CHECK(outcome->step == 8);

  OrderedTraining stopped(20, {}, 100, 4);
  stopped.stop = true;
  const auto left = stopped.loop->run(nullptr);
  REQUIRE(left.ok());
  CHECK(left->stopped);
  CHECK(left->saved_at_stop);
  CHECK(left->step == 4);
  CHECK(*stopped.store->list() == std::vector<std::string>{"step-00000004"});
}

namespace {

// What is trained beside a model: it notes what it is given.
struct NotingCompanion final : TrainingCompanion {
  explicit NotingCompanion(const CheckpointStore& of) : checkpoints(of) {}
  Status save(std::int64_t step) override {
    saved.push_back(step), were_there.push_back(checkpoints.list()->size());
    return {};
  }
  Status load(const std::string& checkpoint) override {
    loaded.push_back(checkpoint);
    return {};
  }
  const CheckpointStore& checkpoints;
  std::vector<std::int64_t> saved;
  std::vector<std::size_t> were_there;  // checkpoints of the loop, when it saved
  std::vector<std::string> loaded;
};

}  // namespace

TEST_CASE("orders: what is trained beside a model is saved before it, and loaded with it") {
  OrderedTraining first(6);
  NotingCompanion beside(*first.store);
  first.options.companion = &beside, first.options.checkpoint_every_steps = 2;
  TrainingLoop loop(first.clock, first.setup.trainer, first.setup.objective, *first.store, first.events, first.stop,
                    nullptr, first.options);
  first.stop = true;
  REQUIRE(loop.run(nullptr).ok());
  CHECK(beside.saved == std::vector<std::int64_t>{1});
  CHECK(beside.were_there == std::vector<std::size_t>{0});

  OrderedTraining second(6, first.folder);
  NotingCompanion again(*second.store);
  second.options.companion = &again, second.options.checkpoint_every_steps = 2;
  TrainingLoop resumed(second.clock, second.setup.trainer, second.setup.objective, *second.store, second.events,
                       second.stop, nullptr, second.options);
  REQUIRE(resumed.restore(second.setup.context).ok());
  CHECK(again.loaded == std::vector<std::string>{second.store->path_of(1)});
  REQUIRE(resumed.run(nullptr).ok());
  CHECK(again.saved == std::vector<std::int64_t>{2, 4, 6});
}

TEST_CASE("orders: another learning rate holds from the next step on, and through a restart") {
  OrderedTraining training(12);
  REQUIRE(training.setup.trainer.step().ok());
  training.worker->order_learning_rate(5e-3);
  training.worker->order_stop_after(2);
  REQUIRE(training.loop->run(nullptr).ok());
  OptimizerSettings expected = training.setup.options.optimizer;
  expected.lr = 5e-3;
  const auto next = training.setup.trainer.step();
  REQUIRE(next.ok());
  CHECK(next->lr == learning_rate(expected, 3, 12));

  OrderedTraining resumed(12, training.folder);
  const auto restored = resumed.loop->restore(resumed.setup.context);
  REQUIRE(restored.ok());
  CHECK(*restored);
  const auto again = resumed.setup.trainer.step();
  REQUIRE(again.ok());
  CHECK(again->step == 3);
  CHECK(again->lr == next->lr);
  CHECK(again->loss == next->loss);
}

TEST_CASE("orders: a training whose time is nearly over saves and stops by itself") {
  OrderedTraining training(50);
  training.worker->must_end_by(training.clock.monotonic_ns() + 1'500'000'000);  // less than a step and the margin need
  const auto outcome = training.loop->run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->stopped);
  CHECK(outcome->saved_at_stop);
  CHECK(outcome->step == 1);
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000001"});

  OrderedTraining in_time(5);
  in_time.worker->must_end_by(in_time.clock.monotonic_ns() + 3'600'000'000'000);
  const auto whole = in_time.loop->run(nullptr);
  REQUIRE(whole.ok());
  CHECK(!whole->stopped);
}

TEST_CASE("orders: a save that does not fit into the time that is left is not begun") {
  OrderedTraining training(50);
  training.options.checkpoint_every_steps = 1, training.options.saver.asynchronous = false;
  training.options.milestone_every_steps = 1;
  training.options.on_milestone = [&](const MilestoneReached& reached) -> Status {
    if (reached.step == 3) training.worker->must_end_by(training.clock.monotonic_ns() + 300'000'000);
    return {};
  };
  TrainingLoop loop(training.clock, training.setup.trainer, training.setup.objective, *training.store, training.events,
                    training.stop, training.page.get(), training.options);
  const std::string plan = join_path(training.folder, "plan");
  REQUIRE(write_file_atomic(plan, "checkpoint_before_shard delay_ms=400 nth=2\n").ok());
  REQUIRE(load_fault_plan(plan).ok());
  const auto outcome = loop.run(nullptr);
  REQUIRE(outcome.ok());
  CHECK(outcome->stopped);
  CHECK(!outcome->saved_at_stop);
  CHECK(outcome->step == 3);
  CHECK(*training.store->list() == std::vector<std::string>{"step-00000002", "step-00000001"});
}
