// Ranks as threads, and a fault on one of them that all survive: whatever the layout and wherever the fault, the
// training ends with the bits of the one that nothing happened to.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"
#include "tests/parallel/ordering_lead.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/seed.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int restart_steps = 6;

struct LoopRun {
  Status status;
  double seconds = 0;
  std::vector<SilentCorruption> reported;  // by this rank
  TrainingOutcome outcome;
  std::vector<float> weights;
  TrainingProgress progress;
};

struct Case {
  ParallelDims dims;
  SetupOptions setup;
  DType dtype = DType::f32;
  std::int64_t snapshot_every = 1;
  std::int64_t checkpoint_every = 2;
  bool offers = true;
  std::int64_t spoilt_sample = -1;
  std::function<void(int rank, TrainingSetup&)> spoil;
  TimeLine line;  // written down before the training begins
};

LoopRun run_rank(const Case& one, const ThreadsWorld& world, int rank, const std::string& folder) {
  LoopRun run;
  const SystemClock clock;
  HeartbeatPage page = HeartbeatPage::create(beat_page_path(folder, rank), rank).value();
  CommOptions options;
  options.clock = &clock;
  options.newest_epoch = &page.restart_word();
  std::unique_ptr<Communicator> ranks = world.communicator(rank, 1, options);
  const std::unique_ptr<Mesh> mesh = std::move(Mesh::create(one.dims, *ranks, 30'000)).value();
  TrainingSetup setup(16, restart_steps, 2, mesh.get(), one.dtype, 32, one.setup);
  setup.source.bad_sample = one.spoilt_sample;
  if (one.spoil) one.spoil(rank, setup);
  CheckpointStore store(clock, join_path(folder, "checkpoints"), RetentionPolicy{100});
  if (rank == 0 && one.line.number() > 0) {
    run.status = make_directories(store.folder());
    if (run.status.ok()) run.status = write_time_line(store.folder(), one.line);
    if (!run.status.ok()) return run;
  }
  EventWriter events(clock, rank == 0 ? join_path(folder, "events.jsonl") : std::string(), rank);
  InProcessRestart restart;
  restart.leave = [&] { setup.stages.clear(); };
  restart.join = [&](std::int64_t epoch) -> Result<std::vector<Llama*>> {
    std::unique_ptr<Communicator> fresh = world.communicator(rank, static_cast<std::uint64_t>(epoch), options);
    LH_TRY(const std::unique_ptr<Mesh> made, Mesh::create(one.dims, *fresh, 30'000));
    *mesh = std::move(*made);
    ranks = std::move(fresh);
    setup.stages = setup.make_stages(2, one.setup);
    return setup.pointers();
  };
  restart.report = [&](const Error&, const std::optional<SilentCorruption>& corruption) {
    if (corruption) run.reported.push_back(*corruption);
  };
  TrainingLoopOptions loop_options;
  loop_options.checkpoint_every_steps = one.checkpoint_every;
  loop_options.snapshot_every_steps = one.snapshot_every;
  loop_options.snapshot_share_max = 1e9;  // whatever it costs
  loop_options.restart = &restart;
  loop_options.eval_every_steps = 3, loop_options.eval_samples = 6;
  const std::atomic<bool> stop{false};
  TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, &page, loop_options);
  MadeUpSource heldout(16, 37, 11);
  const std::int64_t begun = clock.monotonic_ns();
  auto outcome = loop.run(&heldout);
  run.seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  if (!outcome.ok()) {
    run.status = outcome.error();
    return run;
  }
  run.outcome = *outcome, run.progress = setup.trainer.progress();
  const ParameterLayout whole(one.setup.shape);
  run.weights.resize(static_cast<std::size_t>(whole.flat_size()));
  run.status = gather_masters(*mesh, one.setup.shape, setup.store.layout(), setup.store.masters(), whole, run.weights);
  return run;
}

struct Runs {
  std::vector<LoopRun> ranks;
  int orders = 0;
  std::vector<Event> events;  // of the first rank
  std::vector<Event> of(const std::string& kind) const {
    std::vector<Event> found;
    for (const Event& event : events)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
  // The first `ready` of a training reports its start, the others of restarts.
  std::vector<Event> restarts() const {
    std::vector<Event> found = of("ready");
    std::erase_if(found, [](const Event& event) { return event.fields.get_string("from") != "memory"; });
    return found;
  }
};

Runs run_all(const Case& one) {
  const testing::Scratch scratch;
  const int count = one.dims.world_size();
  Runs runs;
  runs.ranks.resize(static_cast<std::size_t>(count));
  OrderingLead lead(scratch.path(), count, one.offers);
  const ThreadsWorld world(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back(
        [&, rank] { runs.ranks[static_cast<std::size_t>(rank)] = run_rank(one, world, rank, scratch.path()); });
  for (std::thread& thread : threads) thread.join();
  runs.orders = lead.finish();
  std::uint64_t offset = 0;
  auto events = read_events(join_path(scratch.path(), "events.jsonl"), offset);
  if (events.ok()) runs.events = std::move(events).value();
  return runs;
}

// Once, in whichever rank comes there as the nth.
void plant(const std::string& point, int nth, const std::string& action = "error") {
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("plan"), format("{} {} nth={}\n", point, action, nth)).ok());
  REQUIRE(load_fault_plan(scratch.file("plan")).ok());
}

void check_same(const Runs& undisturbed, const Runs& disturbed) {
  REQUIRE(undisturbed.ranks.front().status.ok());
  for (std::size_t rank = 0; rank < disturbed.ranks.size(); ++rank) {
    CAPTURE(rank);
    const LoopRun &a = undisturbed.ranks[rank], &b = disturbed.ranks[rank];
    const std::string problem = b.status.ok() ? "" : b.status.error().message();
    CHECK(problem == "");
    CHECK(a.weights == b.weights);
    CHECK(a.progress == b.progress);
    CHECK(a.outcome.loss == b.outcome.loss);
    CHECK(a.outcome.heldout_loss == b.outcome.heldout_loss);
  }
}

std::vector<Case> layouts_with_everything() {
  std::vector<Case> all;
  const auto add = [&](const std::function<void(Case&)>& change) {
    Case one;
    change(one);
    all.push_back(one);
  };
  add([](Case&) {});
  add([](Case& c) { c.dims.dp_replicate = 4; });
  add([](Case& c) { c.dims.dp_shard = 2, c.dims.dp_replicate = 2, c.dims.zero = 1, c.dtype = DType::bf16; });
  add([](Case& c) { c.dims.dp_shard = 2, c.dims.zero = 2; });
  add([](Case& c) { c.dims.dp_shard = 4, c.dims.zero = 3, c.dtype = DType::bf16; });
  add([](Case& c) { c.dims.tp = 2, c.dims.sp = true, c.dims.dp_replicate = 2, c.setup.dropout = 0.1; });
  add([](Case& c) { c.dims.pp = 2, c.dims.dp_replicate = 2; });
  add([](Case& c) { c.dims.pp = 2, c.setup.pipeline.schedule = "zb-h1", c.dims.tp = 2; });
  add([](Case& c) {
    c.dims.pp = 2, c.dims.vp = 2, c.dims.dp_shard = 2, c.dims.zero = 1, c.setup.shape = training_shape(4);
  });
  add([](Case& c) { c.dims.cp = 2, c.dims.dp_shard = 2, c.dims.zero = 1; });
  add([](Case& c) { c.dims.ep = 2, c.dims.dp_replicate = 2, c.setup.shape = training_mixtral_shape(); });
  add([](Case& c) {
    c.dims.ep = 2, c.dims.tp = 2, c.dims.dp_shard = 2, c.dims.zero = 1, c.setup.shape = training_mixtral_shape();
    c.setup.moe.balance = "bias";
  });
  add([](Case& c) { c.setup.moments = "bf16", c.setup.rounding = "stochastic", c.dims.dp_replicate = 2; });
  return all;
}

}  // namespace

TEST_CASE("a fault anywhere in a step, in every kind of layout, changes no bit") {
#if defined(__SANITIZE_THREAD__)
  const std::size_t every = 3;  // races are looked for, not layouts
#else
  const std::size_t every = 1;
#endif
  const std::uint64_t seed = testing::seed(5);
  MESSAGE("seed ", seed);
  const Philox random{seed, 1};
  std::uint64_t draw = 0;
  const auto drawn = [&](int below) {
    return static_cast<int>(random.u64(draw++) % static_cast<std::uint64_t>(below));
  };
  const std::vector<Case> cases = layouts_with_everything();
  const std::vector<const char*> elsewhere = {"engine_step_begin", "engine_backward", "engine_step_done"};
  int restarts = 0;
  for (std::size_t i = 0; i < cases.size(); i += every) {
    Case one = cases[i];
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const Runs undisturbed = run_all(one);
    CHECK(undisturbed.orders == 0);
    // Two faults, one where an update is made on some ranks only.
    const int passages = (restart_steps - 1) * one.dims.world_size(), in_update = 1 + drawn(passages);
    const char* other = elsewhere[i % elsewhere.size()];
    const int nth = 1 + drawn(passages);
    one.snapshot_every = 1 + drawn(3);
    CAPTURE(in_update);
    CAPTURE(other);
    CAPTURE(nth);
    CAPTURE(one.snapshot_every);
    plant("engine_update", in_update);
    plant(other, nth);
    const Runs disturbed = run_all(one);
    check_same(undisturbed, disturbed);
    CHECK(disturbed.orders >= 1);  // one order where both faults came at once
    CHECK(disturbed.orders <= 2);
    const std::vector<Event> ready = disturbed.restarts();
    REQUIRE(static_cast<int>(ready.size()) == disturbed.orders);
    for (const Event& event : ready) {
      CHECK(event.fields.get_string("from") == "memory");
      CHECK(event.fields.get_number("load_s") >= 0);
    }
    CHECK(ready.back().fields.get_integer("epoch") == 1 + disturbed.orders);
    for (const LoopRun& rank : disturbed.ranks) CHECK(rank.seconds < 25);  // nobody waited for the deadline of 30 s
    restarts += disturbed.orders;
  }
  MESSAGE(restarts, " restarts");
}

TEST_CASE("a flipped bit of a contribution ends in a restart that the rank to blame asked for, and changes no bit") {
  for (const int zero : {0, 1, 3}) {
    CAPTURE(zero);
    Case one;
    one.setup.check_contributions = true;
    one.dims.zero = zero;
    (zero > 0 ? one.dims.dp_shard : one.dims.dp_replicate) = 4;
    const Runs undisturbed = run_all(one);
    CHECK(undisturbed.orders == 0);
    plant("engine_contribution", 10, "flip");  // in the third step, in whichever rank
    plant("engine_contribution", 18, "flip");
    const Runs disturbed = run_all(one);
    check_same(undisturbed, disturbed);
    CHECK(disturbed.orders == 2);
    std::size_t reported = 0;
    for (std::size_t rank = 0; rank < disturbed.ranks.size(); ++rank)
      for (const SilentCorruption& found : disturbed.ranks[rank].reported) {
        ++reported;
        CHECK(found.rank == static_cast<int>(rank));
        CHECK(found.other == -1);
      }
    CHECK(reported == 2);
  }
}

TEST_CASE("without a copy in memory a fault in an update ends the training, any other does not") {
  Case one;
  one.dims.dp_replicate = 2, one.snapshot_every = 0;
  const Runs undisturbed = run_all(one);
  plant("engine_backward", 5);
  check_same(undisturbed, run_all(one));
  plant("engine_update", 5);
  for (const LoopRun& rank : run_all(one).ranks) {
    REQUIRE(!rank.status.ok());
    const std::string said = rank.status.error().message();
    CAPTURE(said);
    CHECK(said.find("no state in memory that every rank holds") != std::string::npos);
    CHECK(said.find("in-process restart after") != std::string::npos);
  }
}

TEST_CASE("where nobody orders restarts, and where a fault would come again, it ends the training as ever") {
  Case one;
  one.offers = false;
  plant("engine_step_begin", 3);
  const Runs ended = run_all(one);
  REQUIRE(!ended.ranks.front().status.ok());
  CHECK(ended.ranks.front().status.error().code == ErrorCode::io);
  CHECK(ended.restarts().empty());
}

TEST_CASE("a fault after a step that was rolled back for its loss changes no bit") {
  for (const char* action : {"skip", "rollback"}) {
    Case one;
    one.dims.dp_replicate = 2;
    one.setup.on_spike.action = action;
    one.spoilt_sample = 50;  // of step 4
    const Runs undisturbed = run_all(one);
    REQUIRE(undisturbed.ranks.front().status.ok());
    CHECK(undisturbed.ranks.front().outcome.skipped + undisturbed.ranks.front().outcome.rollbacks == 1);
    for (const int nth : {5, 7, 8, 9}) {
      CAPTURE(nth);
      plant("engine_update", nth);
      const Runs disturbed = run_all(one);
      check_same(undisturbed, disturbed);
      CHECK(disturbed.orders == 1);
    }
  }
}

TEST_CASE("a state in memory from before a roll-back that is written down is not gone on from") {
  for (const bool written : {false, true}) {
    CAPTURE(written);
    Case one;
    one.dims.dp_replicate = 2;
    one.setup.on_spike.action = "rollback";
    // As a rank leaves it that writes it down while another one fails before it has come to the target.
    if (written) one.line = TimeLine().rolled_back(2, 32, Value::make_array());
    plant("engine_update", 7);
    for (const LoopRun& rank : run_all(one).ranks) {
      CHECK(rank.status.ok() != written);
      if (written && !rank.status.ok())
        CHECK(rank.status.error().message().find("of before a roll-back that is written down") != std::string::npos);
    }
  }
}
