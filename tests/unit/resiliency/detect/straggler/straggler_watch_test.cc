#include "resiliency/detect/straggler/straggler_watch.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// Ranks that take steps, looked at after each.
struct WatchedRanks {
  explicit WatchedRanks(int count) {
    for (int rank = 0; rank < count; ++rank) {
      RankObservation one;
      one.rank = rank, one.seen = true;
      one.host = rank < count / 2 ? "n1" : "n2";
      one.beat.step = 100;
      ranks.push_back(one);
      slow.push_back(1);
    }
    watch.new_launch(std::vector<int>(ranks.size(), 0));
  }
  std::vector<Straggler> go(int steps) {
    std::vector<Straggler> reported;
    for (int i = 0; i < steps; ++i) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        ++ranks[r].beat.step;
        ranks[r].beat.computed_ns += static_cast<std::int64_t>(2e8 * slow[r]);
      }
      for (const Straggler& one : watch.look(ranks)) reported.push_back(one);
    }
    return reported;
  }
  std::vector<RankObservation> ranks;
  std::vector<double> slow;
  StragglerWatch watch;
};

}  // namespace

TEST_CASE("straggler watch: a slow rank is reported once with its host and the step of its onset, and its end once") {
  WatchedRanks training(4);
  CHECK(training.go(30).empty());
  CHECK(!training.watch.slowest());
  const std::int64_t onset = training.ranks[3].beat.step + 1;
  training.slow[3] = 1.5;
  const auto begun = training.go(40);
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].finding.rank == 3);
  CHECK(begun[0].host == "n2");
  CHECK(begun[0].finding.since_step == onset);
  CHECK(begun[0].finding.step - onset < 20);
  REQUIRE(training.watch.slowest());
  CHECK(training.watch.slowest()->finding.rank == 3);
  training.slow[3] = 1;
  const auto over = training.go(40);
  REQUIRE(over.size() == 1);
  CHECK(over[0].finding.kind == StragglerFinding::Kind::over);
  CHECK(!training.watch.slowest());
}

TEST_CASE("straggler watch: a new launch knows nothing of the one before, and pages without times say nothing") {
  WatchedRanks training(4);
  (void)training.go(30);
  training.slow[1] = 1.5;
  CHECK(training.go(40).size() == 1);
  training.watch.new_launch({0, 0, 0, 0});
  CHECK(!training.watch.slowest());
  CHECK(training.go(40).size() == 1);  // found again
  training.watch.new_launch({0, 0, 0, 0});
  for (double& one : training.slow) one = 0;
  CHECK(training.go(200).empty());
}
