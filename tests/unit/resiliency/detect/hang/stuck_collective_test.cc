// Ranks that stand still: stuck in collectives, or because of one that stands outside.
#include "resiliency/detect/hang/stuck_collective.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
namespace stuck_ranks {

// Two groups of tensor parallel ranks (0 1, 2 3) and two of data parallel ones (0 2, 1 3), all in the same collective
// of dp.
std::vector<RankObservation> all_in_dp() {
  std::vector<RankObservation> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    RankObservation one;
    one.rank = rank, one.host = "n" + std::to_string(rank), one.seen = true;
    one.process = ProcessState::running;
    one.beat.section = "reduce";
    one.beat.communicators = {{rank < 2 ? "tp@0" : "tp@2", 8, 8}, {rank % 2 == 0 ? "dp@0" : "dp@1", 5, 4}};
    one.beat.waits_in = 1, one.beat.polls = 100, one.unpolled_ms = 0;
    ranks.push_back(one);
  }
  return ranks;
}
StuckCollective find(const std::vector<RankObservation>& ranks) {
  return find_stuck_collective(ranks, wait_graph(ranks));
}

}  // namespace stuck_ranks
}  // namespace

TEST_CASE("stuck collective: all wait, nobody stands outside, and all can be asked to leave") {
  auto ranks = stuck_ranks::all_in_dp();
  StuckCollective stuck = stuck_ranks::find(ranks);
  CHECK(stuck.found);
  CHECK(stuck.out_of_reach == -1);
  CHECK(stuck.where == "dp");
  // Half of them have gone on to the next collective, in which they wait for the others.
  for (const std::size_t gone_on : {0UL, 2UL}) {
    ranks[gone_on].beat.communicators[1].completed = 5;
    ranks[gone_on].beat.communicators[0].enqueued = 9, ranks[gone_on].beat.waits_in = 0;
  }
  stuck = stuck_ranks::find(ranks);
  CHECK(stuck.found);
  CHECK(stuck.where == "dp, tp");
}

TEST_CASE("stuck collective: a rank inside a call of the transport is in it as well, and out of reach") {
  auto ranks = stuck_ranks::all_in_dp();
  ranks[2].unpolled_ms = 5'000;
  const StuckCollective stuck = stuck_ranks::find(ranks);
  CHECK(stuck.found);
  CHECK(stuck.out_of_reach == 2);
  CHECK(stuck.where == "dp");
}

TEST_CASE("stuck collective: one rank outside, not running or not heard of makes it a hang of that rank") {
  const auto outside = [](RankObservation& rank) { rank.beat.waits_in = beat_waits_nowhere; };
  const auto computes = [](RankObservation& rank) {
    rank.beat.waits_in = beat_waits_nowhere, rank.beat.communicators[1].enqueued = 4;
  };
  const auto stopped = [](RankObservation& rank) { rank.process = ProcessState::stopped; };
  const auto traced = [](RankObservation& rank) { rank.process = ProcessState::traced; };
  const auto blocked = [](RankObservation& rank) { rank.process = ProcessState::blocked; };
  const auto ended = [](RankObservation& rank) { rank.process = ProcessState::ended; };
  const auto silent = [](RankObservation& rank) { rank.silent_ms = 5'000; };
  const auto unseen = [](RankObservation& rank) { rank.seen = false; };
  const std::vector<void (*)(RankObservation&)> changes = {outside, computes, stopped, traced,
                                                           blocked, ended,    silent,  unseen};
  for (std::size_t change = 0; change < changes.size(); ++change)
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CAPTURE(change);
      CAPTURE(rank);
      auto ranks = stuck_ranks::all_in_dp();
      changes[change](ranks[rank]);
      CHECK(!stuck_ranks::find(ranks).found);
    }
  CHECK(!stuck_ranks::find({}).found);
}
