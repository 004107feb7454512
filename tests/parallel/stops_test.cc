// Ranks as threads that are asked to stop: all stop after the same step, and know together who of them was asked.
#include <doctest/doctest.h>

#include <csignal>

#include "engine/train/loop/training_loop.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/scratch.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int ranks_of_a_stop = 4, steps_planned = 50;

// `asked`: by rank, the signal that it gets before its first step, 0 for none. `short_of_time`: the rank whose page
// says that the end is near, -1 for none.
std::vector<TrainingOutcome> outcomes_of(const std::vector<int>& reported, int short_of_time = -1) {
  const testing::Scratch scratch;
  std::vector<TrainingOutcome> outcomes(ranks_of_a_stop);
  on_threads(data_parallel(ranks_of_a_stop), [&](int rank, Mesh& mesh) {
    const SystemClock clock;
    HeartbeatPage page = HeartbeatPage::create(beat_page_path(scratch.path(), rank), rank).value();
    if (rank == short_of_time) page.must_end_by(clock.monotonic_ns() + 1'500'000'000);
    TrainingSetup setup(16, steps_planned, 2, &mesh);
    CheckpointStore store(clock, scratch.path() + "/checkpoints", RetentionPolicy{100});
    EventWriter events(clock, "", rank);
    const int number = reported[static_cast<std::size_t>(rank)];
    const std::atomic<bool> stop{number != 0};
    const std::atomic<int> signal{number};
    TrainingLoopOptions options;
    options.stop_signal = &signal;
    TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, &page, options);
    const auto outcome = loop.run(nullptr);
    if (outcome.ok()) outcomes[static_cast<std::size_t>(rank)] = *outcome;
  });
  for (const TrainingOutcome& outcome : outcomes) {
    CHECK(outcome.stopped);
    CHECK(outcome.saved_at_stop);
    CHECK(outcome.step == 1);
  }
  return outcomes;
}

}  // namespace

TEST_CASE("stops: of ranks of which one alone was asked, every one knows which") {
  for (const TrainingOutcome& outcome : outcomes_of({0, 0, SIGTERM, 0})) {
    CHECK_FALSE(outcome.stop_cause.by_own_timer());
    CHECK(outcome.stop_cause.asked == std::vector<int>{2});
    CHECK(outcome.stop_cause.text() == "rank 2: asked to stop by SIGTERM");
  }
}

TEST_CASE("stops: ranks that were all asked, and ranks that were asked in several ways") {
  for (const TrainingOutcome& outcome : outcomes_of({SIGUSR1, SIGUSR1, SIGUSR1, SIGUSR1}))
    CHECK(outcome.stop_cause.text() == "all ranks were asked to stop by SIGUSR1");
  for (const TrainingOutcome& outcome : outcomes_of({SIGTERM, 0, 0, SIGINT}))
    CHECK(outcome.stop_cause.text() == "ranks 0, 3 were asked to stop");
}

TEST_CASE(
    "stops: ranks whose time is nearly over were asked by nobody, and a rank that was asked is named all the same") {
  for (const TrainingOutcome& outcome : outcomes_of({0, 0, 0, 0}, 1)) CHECK(outcome.stop_cause.by_own_timer());
  for (const TrainingOutcome& outcome : outcomes_of({0, 0, 0, SIGTERM}, 1))
    CHECK(outcome.stop_cause.asked == std::vector<int>{3});
}
