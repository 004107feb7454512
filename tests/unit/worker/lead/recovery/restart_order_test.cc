// An order to go on in-process is followed, or comes to nothing within its deadlines.
#include "worker/lead/recovery/restart_order.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
namespace restart_order {

struct Rig {
  RestartOrder order;
  std::vector<RankObservation> ranks;
  GuardFinding why;

  Rig() {
    why.kind = GuardFinding::Kind::stuck_collective;
    why.cause = "all ranks live and wait in dp";
    why.detect_s = 3;
    for (int rank = 0; rank < 4; ++rank) {
      RankObservation one;
      one.rank = rank, one.seen = true, one.process = ProcessState::running;
      one.beat.epoch = 1, one.beat.section = "micro_batch";
      ranks.push_back(one);
    }
    order.given(1'000, 2, why);
  }
  void leave(int rank) { ranks[static_cast<std::size_t>(rank)].beat.section = "restart"; }
  void come(int rank) {
    ranks[static_cast<std::size_t>(rank)].beat.section = "micro_batch";
    ranks[static_cast<std::size_t>(rank)].beat.epoch = 2;
  }
};

}  // namespace restart_order
}  // namespace

TEST_CASE("restart order: once all ranks have come to the epoch nobody is waited for") {
  restart_order::Rig rig;
  for (int rank = 0; rank < 4; ++rank) rig.leave(rank);
  CHECK(!rig.order.look(2'000, rig.ranks));
  for (int rank = 0; rank < 4; ++rank) rig.come(rank);
  CHECK(!rig.order.look(2'100, rig.ranks));
  for (RankObservation& one : rig.ranks) one.beat.epoch = 1;
  CHECK(!rig.order.look(100'000, rig.ranks));
}

TEST_CASE("restart order: a rank that does not leave ends it after seconds, and only new processes are left") {
  restart_order::Rig rig;
  for (const int rank : {0, 1, 3}) rig.leave(rank);
  CHECK(!rig.order.look(1'000 + RestartOrder::leave_ms - 1, rig.ranks));
  const auto found = rig.order.look(1'000 + RestartOrder::leave_ms, rig.ranks);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::stuck_collective);
  CHECK(found->rank == -1);
  CHECK(found->no_order == "rank 2 did not leave its collective within 3 s of the order to go on in-process");
  CHECK(found->cause.find("all ranks live and wait in dp; rank 2") == 0);
  CHECK(found->detect_s == doctest::Approx(6));
  CHECK(!rig.order.look(200'000, rig.ranks));  // reported once
}

TEST_CASE("restart order: ranks that have left and do not meet have longer") {
  restart_order::Rig rig;
  for (const int rank : {0, 1, 2}) rig.come(rank);
  rig.leave(3);
  CHECK(!rig.order.look(1'000 + RestartOrder::meet_ms - 1, rig.ranks));
  const auto found = rig.order.look(1'000 + RestartOrder::meet_ms, rig.ranks);
  REQUIRE(found);
  CHECK(found->no_order.find("rank 3 did not meet the others within 25 s") == 0);
}

TEST_CASE("restart order: another fault or launch ends the waiting") {
  restart_order::Rig rig;
  rig.order.over();
  CHECK(!rig.order.look(100'000, rig.ranks));
}

TEST_CASE("restart order: a node whose agent is silent has not passed it on; the fault stays its rank's") {
  restart_order::Rig rig;
  rig.why = GuardFinding{};
  rig.why.kind = GuardFinding::Kind::faulted;
  rig.why.rank = 1, rig.why.host = "n1", rig.why.cause = "rank 1 has a fault at step 7";
  rig.order.given(1'000, 2, rig.why);
  const auto silent_for = [&](std::int64_t ms) {
    for (const std::size_t rank : {2U, 3U}) rig.ranks[rank].host = "n2", rig.ranks[rank].silent_ms = ms;
  };
  silent_for(60'000);
  CHECK(!rig.order.look(60'000, rig.ranks));  // the others are in a long step
  for (const int rank : {0, 1}) rig.leave(rank);
  silent_for(2'000);
  CHECK(!rig.order.look(60'000, rig.ranks));  // heard of since the order
  silent_for(RestartOrder::leave_ms);
  CHECK(!rig.order.look(1'000 + RestartOrder::leave_ms - 1, rig.ranks));
  const auto found = rig.order.look(1'000 + RestartOrder::leave_ms, rig.ranks);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::faulted);
  CHECK(found->rank == 1);
  CHECK(found->host == "n1");
  CHECK(found->no_order == "the order to go on in-process was not passed on: node n2 was not heard of for 3.0 s");
  CHECK(!rig.order.look(200'000, rig.ranks));  // reported once
}

TEST_CASE("restart order: an agent that falls silent within the second after the order has not passed it on either") {
  restart_order::Rig rig;
  rig.why = GuardFinding{};
  rig.why.kind = GuardFinding::Kind::faulted;
  rig.order.given(1'000, 2, rig.why);
  for (const int rank : {0, 1}) rig.leave(rank);
  const auto at = [&](std::int64_t since_ms, std::int64_t heard_ms) {
    for (const std::size_t rank : {2U, 3U})
      rig.ranks[rank].host = "n2", rig.ranks[rank].silent_ms = since_ms - heard_ms;
    return rig.order.look(1'000 + since_ms, rig.ranks);
  };
  CHECK(!at(60'000, RestartOrder::passed_on_ms + 1));  // it had time to pass it on: its ranks may be in a long step
  for (const int rank : {2, 3}) rig.leave(rank);
  CHECK(
      !at(3'500, RestartOrder::passed_on_ms));  // what it last said lets them come; too early to say that it is silent
  for (const int rank : {2, 3}) rig.ranks[static_cast<std::size_t>(rank)].beat.section = "micro_batch";
  CHECK(!at(RestartOrder::leave_ms + RestartOrder::passed_on_ms - 1, RestartOrder::passed_on_ms));
  const auto found = at(RestartOrder::leave_ms + RestartOrder::passed_on_ms, RestartOrder::passed_on_ms);
  REQUIRE(found);
  CHECK(found->no_order == "the order to go on in-process was not passed on: node n2 was not heard of for 3.0 s");
}

TEST_CASE("restart order: of a fault that was survived nobody is late who is heard of, nor whom the others have met") {
  restart_order::Rig rig;
  rig.why.kind = GuardFinding::Kind::faulted;
  rig.order.given(1'000, 2, rig.why);
  for (const int rank : {0, 1, 3}) rig.leave(rank);
  CHECK(!rig.order.look(500'000, rig.ranks));  // rank 2 is in a long step
  for (const int rank : {0, 1, 3}) rig.come(rank);
  rig.ranks[2].silent_ms = 400'000;  // and must have come as well
  CHECK(!rig.order.look(500'000, rig.ranks));
}

TEST_CASE("restart order: ranks that all have left after a fault, however late, have as long to meet as others") {
  restart_order::Rig rig;
  rig.why.kind = GuardFinding::Kind::faulted;
  rig.why.rank = 2, rig.why.cause = "rank 2 has a fault at step 38";
  rig.order.given(1'000, 3, rig.why);
  for (const int rank : {0, 1, 2}) rig.leave(rank);
  CHECK(!rig.order.look(91'000, rig.ranks));  // rank 3 stands in a long step
  rig.leave(3);
  CHECK(!rig.order.look(92'000, rig.ranks));
  CHECK(!rig.order.look(92'000 + RestartOrder::meet_ms - 1, rig.ranks));
  const auto found = rig.order.look(92'000 + RestartOrder::meet_ms, rig.ranks);
  REQUIRE(found);
  CHECK(found->rank == 2);
  CHECK(found->no_order.find("rank 0 did not meet the others within 25 s") == 0);
  CHECK(found->cause.find("rank 2 has a fault at step 38; rank 0") == 0);
  CHECK(!rig.order.look(500'000, rig.ranks));  // reported once
}

TEST_CASE("restart order: a rank that fails on its way back ends it, though the others have met without it") {
  restart_order::Rig rig;
  rig.why.kind = GuardFinding::Kind::faulted, rig.why.rank = 1, rig.why.cause = "rank 1 has a fault at step 38";
  rig.order.given(1'000, 2, rig.why);
  for (const int rank : {0, 1, 3}) rig.come(rank);
  rig.leave(2);
  CHECK(!rig.order.look(2'000, rig.ranks));
  rig.ranks[2].beat.section = "failed 8";
  const auto found = rig.order.look(3'000, rig.ranks);
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->cause == "rank 1 has a fault at step 38; rank 2 has failed since the order to go on in-process");
}

TEST_CASE(
    "restart order: a rank that srun ended before the one that failed on its way was reported is no fault of its own") {
  restart_order::Rig rig;
  rig.why.kind = GuardFinding::Kind::faulted, rig.why.rank = 2, rig.why.cause = "rank 2 has a fault at step 39";
  GuardFinding ended, hang;
  ended.kind = GuardFinding::Kind::rank_ended, ended.rank = 0;
  hang.kind = GuardFinding::Kind::hang, hang.rank = 0;
  for (const GuardFinding* seen : {&ended, &hang}) {
    for (auto& rank : rig.ranks) rank.beat.section = "restart";
    rig.order.given(1'000, 2, rig.why);
    const auto found = rig.order.fault_of(*seen, 1'500, rig.ranks);
    REQUIRE(found);
    CHECK(found->kind == seen->kind);
    CHECK(!rig.order.failed(rig.ranks));
    rig.ranks[2].beat.section = "failed 8";  // its agent reports while the launch is put down
    const auto before = rig.order.failed(rig.ranks);
    REQUIRE(before.has_value() == (seen == &ended));
    if (before)
      CHECK(before->cause == "rank 2 has a fault at step 39; rank 2 has failed since the order to go on in-process");
  }
}

TEST_CASE(
    "restart order: where the launch has ended meanwhile, a rank that failed on its way belongs to the fault before") {
  restart_order::Rig rig;
  CHECK(!rig.order.failed(rig.ranks));
  rig.ranks[2].beat.section = "failed 8";
  CHECK(!rig.order.failed(rig.ranks));  // of a hang: ranks may fail at what they hung in
  rig.why.kind = GuardFinding::Kind::faulted, rig.why.rank = 1, rig.why.cause = "rank 1 has a fault at step 38";
  rig.order.given(1'000, 2, rig.why);
  rig.ranks[2].beat.section = "restart";
  CHECK(!rig.order.failed(rig.ranks));
  rig.ranks[2].beat.section = "failed 8";
  const auto found = rig.order.failed(rig.ranks);
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->cause == "rank 1 has a fault at step 38; rank 2 has failed since the order to go on in-process");
  CHECK(!rig.order.failed(rig.ranks));  // reported once
}
