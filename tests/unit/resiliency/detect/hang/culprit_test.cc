// Who is named, case by case; culprit_faults_test.cc draws hundreds.
#include "resiliency/detect/hang/culprit.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace longhaul;

namespace culprit_cases {

RankObservation standing(int rank, std::vector<BeatCommunicator> communicators, int waits_in = beat_waits_nowhere) {
  RankObservation one;
  one.rank = rank, one.host = "n" + std::to_string(rank), one.seen = true, one.process = ProcessState::running;
  one.idle_ms = 3'000;
  one.beat.section = "micro_batch", one.beat.step = 7;
  one.beat.communicators = std::move(communicators), one.beat.waits_in = waits_in;
  return one;
}

}  // namespace culprit_cases
using culprit_cases::standing;

TEST_CASE("a chain over two axes ends at the rank that waits for nobody") {
  // Ranks 0 1 share tp, 2 3 share tp; 0 2 share dp, 1 3 share dp. Rank 3 computes; 2 waits for it in tp; 0 and 1 have
  // gone on to dp, where 0 waits for 2 and 1 waits for 3.
  const std::vector<RankObservation> ranks = {
      standing(0, {{"tp@0", 9, 9}, {"dp@0", 4, 3}}, 1), standing(1, {{"tp@0", 9, 9}, {"dp@1", 4, 3}}, 1),
      standing(2, {{"tp@2", 8, 7}, {"dp@0", 3, 3}}, 0), standing(3, {{"tp@2", 7, 7}, {"dp@1", 3, 3}})};
  const auto culprits = find_culprits(ranks);
  REQUIRE(culprits.size() == 1);
  CHECK(culprits[0].rank == 3);
  CHECK(culprits[0].certain);
  CHECK(culprits[0].reason.find("3 others wait for it") != std::string::npos);
  const WaitGraph graph = wait_graph(ranks);
  CHECK(graph.nodes[0].end == 3);
  CHECK(graph.nodes[3].waiters == 3);
}

TEST_CASE("who waits for a message waits for its sender") {
  std::vector<RankObservation> ranks = {standing(0, {{"pp@0", 0, 0}}), standing(1, {{"pp@0", 0, 0}}, 0),
                                        standing(2, {{"pp@0", 0, 0}}, 0)};
  ranks[1].beat.waits_for = 0, ranks[2].beat.waits_for = 1;
  const auto culprits = find_culprits(ranks);
  REQUIRE(!culprits.empty());
  CHECK(culprits[0].rank == 0);
  CHECK(culprits[0].communicator == "pp");
  CHECK(culprits[0].reason ==
        "rank 0 stands in section micro_batch since 3.0 s; 2 others wait for it in pp, for a message");
}

TEST_CASE("ranks in one collective, all come: the one that does not poll its wait, or nobody for sure") {
  std::vector<RankObservation> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(standing(r, {{"dp@0", 5, 4}}, 0));
  CHECK(!find_culprits(ranks)[0].certain);
  for (RankObservation& one : ranks) one.unpolled_ms = 40;
  ranks[2].unpolled_ms = 3'000;
  const auto culprits = find_culprits(ranks);
  CHECK(culprits[0].rank == 2);
  CHECK(culprits[0].certain);
  CHECK(culprits[0].reason.find("stuck inside a call") != std::string::npos);
}

TEST_CASE(
    "where nothing says who waits, who is behind comes first: in steps, then in collectives, then who stopped first") {
  std::vector<RankObservation> ranks = {standing(0, {}), standing(1, {}), standing(2, {})};
  const auto first = [&] { return find_culprits(ranks)[0].rank; };
  CHECK(first() == 0);
  ranks[2].idle_ms = 5'000;
  CHECK(first() == 2);
  ranks[1].beat.step = 6, ranks[1].idle_ms = 1'000;
  CHECK(first() == 1);
  // Two groups, all of whose ranks have come to a collective.
  ranks.clear();
  for (int r = 0; r < 4; ++r) {
    const std::uint64_t done = r < 2 ? 4 : 3;
    ranks.push_back(standing(r, {{"dp@" + std::to_string(r / 2), done + 1, done}}, 0));
  }
  ranks[0].idle_ms = 5'000;
  CHECK(first() == 2);
  ranks[1].beat.step = 6;
  CHECK(first() == 1);
}

TEST_CASE("of silent hosts one alone is surely at fault, however many ranks it has; of two neither is") {
  std::vector<RankObservation> ranks;
  for (int r = 0; r < 4; ++r)
    ranks.push_back(standing(r, {{"dp@0", r < 2 ? 5U : 4U, 4}}, r < 2 ? 0 : beat_waits_nowhere));
  for (const int r : {2, 3}) ranks[static_cast<std::size_t>(r)].silent_ms = 5'000;
  CHECK_FALSE(find_culprits(ranks)[0].certain);  // n2 and n3
  ranks[3].host = "n2";
  const auto culprits = find_culprits(ranks);
  CHECK(culprits[0].host == "n2");
  CHECK(culprits[0].certain);
  ranks[2].silent_ms = ranks[3].silent_ms = 1'999;  // heard lately: which of the two it is is not known
  CHECK_FALSE(find_culprits(ranks)[0].certain);
}

TEST_CASE("a rank without a page is named, a rank that is done is not") {
  std::vector<RankObservation> ranks = {standing(0, {{"world", 1, 0}}, 0), standing(1, {{"world", 1, 0}}, 0), {}};
  ranks[2].rank = 2, ranks[2].host = "n2";
  CHECK(find_culprits(ranks)[0].reason == "rank 2 has shown no page yet; no page says who waits for whom");
  // Rank 2 ended after its last collective; rank 1 keeps rank 0 waiting in one between the two.
  ranks = {standing(0, {{"world", 9, 9}, {"tp@0", 3, 2}}, 1), standing(1, {{"world", 9, 9}, {"tp@0", 2, 2}}),
           standing(2, {{"world", 9, 9}})};
  ranks[2].process = ProcessState::ended;
  CHECK(find_culprits(ranks)[0].rank == 1);
  CHECK(find_culprits({}).empty());
}

TEST_CASE("16,384 ranks are looked through in a moment") {
  std::vector<RankObservation> ranks;
  for (int r = 0; r < 16384; ++r) {
    const std::string tp = "tp@" + std::to_string(r / 8 * 8), dp = "dp@" + std::to_string(r % 128);
    ranks.push_back(standing(r, {{tp, 8, 8}, {dp, 4, 3}, {"world", 2, 2}}, 1));
  }
  ranks[9000].beat = standing(9000, {{"tp@9000", 7, 7}, {"dp@40", 3, 3}, {"world", 2, 2}}).beat;
  for (int r = 9001; r < 9008; ++r) {
    auto& beat = ranks[static_cast<std::size_t>(r)].beat;
    beat.communicators[0].completed = 7, beat.communicators[1].enqueued = 3, beat.waits_in = 0;
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto culprits = find_culprits(ranks);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  MESSAGE("the culprit among 16,384 ranks in ", 1e3 * seconds, " ms");
  REQUIRE(!culprits.empty());
  CHECK(culprits[0].rank == 9000);
  CHECK(seconds < 5);
}
