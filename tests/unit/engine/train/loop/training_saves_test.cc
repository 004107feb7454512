// What a training saves while it goes on, and what it goes on from.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"
#include "tests/support/failure_lines.h"
#include "tests/support/scratch.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

struct SavingTraining {
  SavingTraining(const std::string& folder, std::int64_t steps, const TrainingLoopOptions& options,
                 const RetentionPolicy& retention = {100})
      : setup(4, steps),
        events_path(join_path(folder, "events.jsonl")),
        events(clock, events_path, 0),
        store(clock, join_path(folder, "checkpoints"), retention),
        loop(clock, setup.trainer, setup.objective, store, events, stop, nullptr, options) {}
  std::vector<Event> events_of(const std::string& kind) const {
    std::uint64_t offset = 0;
    std::vector<Event> found;
    const auto all = read_events(events_path, offset);
    for (const Event& event : *all)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
  test::TrainingSetup setup;
  SystemClock clock;
  std::atomic<bool> stop{false};
  std::string events_path;
  EventWriter events;
  CheckpointStore store;
  TrainingLoop loop;
};

}  // namespace

TEST_CASE("a broken invariant in a training, as a refused call of a GPU is one, names rank and step") {
  const testing::Scratch scratch;
  const std::string said = testing::failure_lines([&] {
    TrainingLoopOptions options;
    options.milestone_every_steps = 1;
    options.on_milestone = [](const MilestoneReached& reached) -> Status {
      LH_ASSERT(reached.step < 3, "cudaLaunchKernel: refused");
      return {};
    };
    SavingTraining training(scratch.path(), 5, options);
    (void)training.loop.run(nullptr);
  });
  CHECK(said.find("[cudaLaunchKernel: refused] at rank 0 of 1, after step 3\n") != std::string::npos);
}

TEST_CASE("the rate of a training counts what it does between its steps") {
  const testing::Scratch scratch;
  TrainingLoopOptions options;
  options.milestone_every_steps = 1;
  options.on_milestone = [](const MilestoneReached&) -> Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    return {};
  };
  SavingTraining training(scratch.path(), 5, options);
  REQUIRE(training.loop.run(nullptr).ok());
  const auto progress = training.events_of("progress");
  REQUIRE(!progress.empty());
  CHECK(progress.back().fields.get_number("done") == 5);
  // Four milestones lie before the last report, and 5 steps cannot take less than these.
  CHECK(progress.back().fields.get_number("rate") < 5 / 0.160);
}

TEST_CASE("a page says that a rank waits for a write, and how many bytes it has written") {
  for (const bool asynchronous : {true, false}) {
    CAPTURE(asynchronous);
    const testing::Scratch scratch;
    auto page = HeartbeatPage::create(scratch.file("beat-0"), 0);
    REQUIRE(page.ok());
    TrainingLoopOptions options;
    options.checkpoint_every_steps = 2;
    options.saver.asynchronous = asynchronous;
    test::TrainingSetup setup(4, 4);
    const SystemClock clock;
    const std::atomic<bool> stop{false};
    EventWriter events(clock, scratch.file("events.jsonl"), 0);
    CheckpointStore store(clock, scratch.file("checkpoints"), RetentionPolicy{100});
    TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, &*page, options);
    REQUIRE(loop.run(nullptr).ok());
    const BeatSnapshot seen = page->snapshot();
    CHECK(seen.section == beat_checkpoint_write);  // the last thing that it did
    std::int64_t on_disk = 0;
    const auto names = store.list();
    REQUIRE(names.ok());
    for (const std::string& name : *names)
      for (const auto& file : std::filesystem::directory_iterator(join_path(store.folder(), name)))
        if (file.path().extension() == ".safetensors") on_disk += static_cast<std::int64_t>(file.file_size());
    CHECK(on_disk > 0);
    CHECK(seen.written_bytes == on_disk);
  }
}

TEST_CASE("a checkpoint at every step: each is whole, and said so once") {
  for (const bool asynchronous : {true, false}) {
    CAPTURE(asynchronous);
    const testing::Scratch scratch;
    TrainingLoopOptions options;
    options.checkpoint_every_steps = 1;
    options.saver.asynchronous = asynchronous;
    SavingTraining training(scratch.path(), 5, options);
    REQUIRE(training.loop.run(nullptr).ok());
    CHECK(training.store.list()->size() == 5);
    const std::vector<Event> saved = training.events_of("checkpoint");
    REQUIRE(saved.size() == 5);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const Value& fields = saved[i].fields;
      CHECK(fields.get_integer("step") == static_cast<std::int64_t>(i) + 1);
      CHECK(fields.get_integer("bytes") == 12 * training.setup.store.shape().parameter_count());
      CHECK(fields.find("asynchronous")->as_bool() == asynchronous);
      CHECK(fields.get_number("stall_s") >= fields.get_number("waited_s"));
      CHECK(fields.get_number("write_s") > 0);
    }
  }
}

TEST_CASE("the best checkpoints by held-out loss stay") {
  const testing::Scratch scratch;
  TrainingLoopOptions options;
  options.checkpoint_every_steps = options.eval_every_steps = 1;
  options.eval_samples = 8;
  SavingTraining training(scratch.path(), 6, options, {1, 0, 1});
  test::MadeUpSource heldout(16, 37, 8);
  REQUIRE(training.loop.run(&heldout).ok());
  double best = 1e9;
  std::int64_t best_step = 0;
  for (const Event& event : training.events_of("metric"))
    if (const Value* loss = event.fields.find("heldout_loss");
        loss && event.fields.get_integer("step") < 6 && loss->as_number() < best)
      best = loss->as_number(), best_step = event.fields.get_integer("step");
  CHECK(*training.store.list() == std::vector<std::string>{"step-00000006", checkpoint_folder_name(best_step)});
}

TEST_CASE("a training goes on from the newest of checkpoint and copies on the nodes, to the same end") {
  const testing::Scratch scratch;
  const SystemClock clock;
  Mesh alone;
  LocalCopiesOptions local;
  local.folder = join_path(scratch.path(), "node");
  REQUIRE(make_directories(local.folder).ok());
  const auto copies = [&] {
    auto created = LocalCopies::create(clock, alone.world(), scratch.path(), local);
    REQUIRE(created.ok());
    return std::move(*created);
  };
  test::TrainingSetup whole(4, 8);
  for (int i = 0; i < 8; ++i) REQUIRE(whole.trainer.step().ok());

  TrainingLoopOptions options;
  options.checkpoint_every_steps = 4, options.local_every_steps = 2;
  options.seed = 1;
  {
    const auto first = copies();
    options.local_copies = first.get();
    options.milestone_every_steps = 1;  // steps long enough for a copy to be written
    options.on_milestone = [&](const MilestoneReached&) {
      while (!first->ready()) ::usleep(1000);
      return Status();
    };
    SavingTraining training(scratch.path(), 8, options);
    training.setup.source.unreadable_from = 7 * 4;  // dies in the eighth step
    CHECK_FALSE(training.loop.run(nullptr).ok());
    CHECK(*training.store.list() == std::vector<std::string>{"step-00000004"});  // the one under way is waited for
    while (!first->ready()) ::usleep(1000);
    options.milestone_every_steps = 0;
    CHECK(training.events_of("local_copy").size() == 2);  // of steps 2 and 6; step 4 has a checkpoint
  }
  {
    const auto second = copies();
    options.local_copies = second.get();
    SavingTraining training(scratch.path(), 8, options);
    REQUIRE(training.loop.restore(training.setup.context).ok());
    CHECK(training.setup.trainer.progress().step == 6);
    REQUIRE(training.loop.run(nullptr).ok());
    const std::vector<Event> ready = training.events_of("ready");
    REQUIRE_FALSE(ready.empty());
    CHECK(ready.back().fields.get_string("from") == "copies");
    CHECK(ready.back().fields.get_integer("own_copies") == 1);
    CHECK(ready.back().fields.find("passed_over") == nullptr);
    CHECK(
        std::equal(whole.store.masters().begin(), whole.store.masters().end(), training.setup.store.masters().begin()));
  }
  CHECK(LocalCopies::create(clock, alone.world(), scratch.path(), {"/nowhere/at/all"}).error().code ==
        ErrorCode::invalid_input);
}

TEST_CASE("a training says once when it is ready, before its first step, and from which step it goes on") {
  const testing::Scratch scratch;
  TrainingLoopOptions options;
  {
    SavingTraining training(scratch.path(), 3, options);
    REQUIRE(training.loop.restore(training.setup.context).ok());
    REQUIRE(training.loop.run(nullptr).ok());
    const std::vector<Event> ready = training.events_of("ready");
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].fields.get_integer("step", -1) == 0);
    CHECK(ready[0].wall_ms <= training.events_of("metric")[0].wall_ms);
  }
  SavingTraining again(scratch.path(), 5, options);
  const std::int64_t begun_ns = again.clock.monotonic_ns();
  REQUIRE(again.loop.restore(again.setup.context).ok());
  REQUIRE(again.loop.run(nullptr).ok());
  const std::vector<Event> ready = again.events_of("ready");
  REQUIRE(ready.size() == 2);  // with that of the launch before
  CHECK(ready[1].fields.get_integer("step", -1) == 3);
  const double load_s = ready[1].fields.get_number("load_s");
  CHECK(load_s > 0);
  CHECK(load_s < static_cast<double>(again.clock.monotonic_ns() - begun_ns) * 1e-9);
  SavingTraining done(scratch.path(), 5, options);  // no step is left
  REQUIRE(done.loop.restore(done.setup.context).ok());
  REQUIRE(done.loop.run(nullptr).ok());
  CHECK(done.events_of("ready").size() == 2);
}
