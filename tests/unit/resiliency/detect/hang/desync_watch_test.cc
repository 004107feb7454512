#include "resiliency/detect/hang/desync_watch.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// Four ranks that wait in dp; rank 2 has left one collective out.
std::vector<RankObservation> out_of_step(std::int64_t idle_ms) {
  std::vector<RankObservation> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    RankObservation one;
    one.rank = rank, one.seen = true, one.idle_ms = idle_ms;
    one.process = ProcessState::running;
    one.beat.communicators = {{"dp", rank == 2 ? 6U : 7U, rank == 2 ? 5U : 6U}};
    one.beat.waits_in = 0;
    ranks.push_back(one);
  }
  return ranks;
}

}  // namespace

TEST_CASE("desync watch: reported once when all stood still for a while, at the second look, with who is behind") {
  DesyncWatch watch;
  std::int64_t now = 1'000;
  for (std::int64_t idle = 0; idle < 2'000; idle += 50) CHECK(!watch.observe(now += 50, out_of_step(idle)));
  std::optional<Desync> found;
  std::int64_t after = 0;
  for (std::int64_t idle = 2'000; idle < 5'000 && !found; idle += 50) {
    found = watch.observe(now += 50, out_of_step(idle));
    after = idle;
  }
  REQUIRE(found);
  CHECK(after <= 2'600);
  CHECK(found->behind == std::vector<int>{2});
  CHECK(found->communicators == std::vector<std::string>{"dp"});
  for (int i = 0; i < 100; ++i) CHECK(!watch.observe(now += 50, out_of_step(9'000)));
}

TEST_CASE("desync watch: a rank that moves, or a host that is not heard of, makes it no standstill") {
  DesyncWatch watch;
  std::int64_t now = 1'000;
  auto ranks = out_of_step(5'000);
  ranks[3].idle_ms = 10;
  for (int i = 0; i < 100; ++i) CHECK(!watch.observe(now += 50, ranks));
  ranks = out_of_step(5'000);
  ranks[1].silent_ms = 3'000;  // what it says is old
  for (int i = 0; i < 100; ++i) CHECK(!watch.observe(now += 50, ranks));
}

TEST_CASE("desync watch: counts that differ from look to look are ranks on their way") {
  DesyncWatch watch;
  std::int64_t now = 1'000;
  for (std::uint64_t i = 0; i < 50; ++i) {
    auto ranks = out_of_step(5'000);
    for (RankObservation& rank : ranks) rank.beat.communicators[0].enqueued += i;
    CHECK(!watch.observe(now += 500, ranks));
  }
}

TEST_CASE("desync watch: what was seen once and is gone at the next look begins anew") {
  DesyncWatch watch;
  auto in_step = out_of_step(5'000);
  for (RankObservation& rank : in_step) rank.beat.communicators[0] = {"dp", 7, 6};
  std::int64_t now = 1'000;
  CHECK(!watch.observe(now += 500, out_of_step(5'000)));
  CHECK(!watch.observe(now += 500, in_step));
  CHECK(!watch.observe(now += 500, out_of_step(5'000)));
  CHECK(watch.observe(now += 500, out_of_step(5'000)));
}
