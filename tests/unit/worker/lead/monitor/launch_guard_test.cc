#include "worker/lead/monitor/launch_guard.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// Four ranks on two nodes; the time goes on in looks of 50 ms.
struct GuardRig {
  ResiliencySettings settings = resiliency_for({}, "pretrain");
  LaunchGuard guard{settings, true};
  std::vector<RankObservation> ranks;
  std::vector<HostObservation> hosts{{"n1", true, true, 0, 0}, {"n2", true, true, 0, 0}};
  std::int64_t now_ms = 1'000'000;

  GuardRig() {
    for (int rank = 0; rank < 4; ++rank) {
      RankObservation sight;
      sight.rank = rank;
      sight.host = rank < 2 ? "n1" : "n2";
      sight.seen = true;
      sight.beat.rank = rank;
      sight.beat.section = "micro_batch";
      sight.process = ProcessState::running;
      ranks.push_back(sight);
    }
    guard.new_launch(now_ms, 1);
  }
  std::optional<GuardFinding> look() {
    for (RankObservation& rank : ranks) rank.idle_ms += 50;
    return guard.look(now_ms += 50, ranks, hosts);
  }
  void step() {
    for (RankObservation& rank : ranks) ++rank.beat.step, rank.idle_ms = 0;
  }
  // Until something is found, at most so long; in ms since now.
  std::optional<std::int64_t> found_after(std::int64_t at_most_ms, bool host_silent, bool stepping = false) {
    const std::int64_t begin = now_ms;
    while (now_ms - begin < at_most_ms) {
      if (host_silent) hosts[1].silent_ms += 50;
      if (!hosts[1].connected) hosts[1].apart_ms += 50;
      if (stepping) step();
      if (look()) return now_ms - begin;
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("guard: a rank whose process ended is found at once, the one that was still for longest first") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.ranks[2].process = rig.ranks[3].process = ProcessState::ended;
  rig.ranks[2].idle_ms = 120, rig.ranks[3].idle_ms = 250;
  const auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::rank_ended);
  CHECK(found->rank == 3);
  CHECK(found->host == "n2");
  CHECK(found->detect_s == doctest::Approx(0.3));
  CHECK(!rig.look());  // reported once
  rig.guard.new_launch(rig.now_ms, 1);
  CHECK(rig.look());
}

TEST_CASE("guard: a rank that says that it failed and does not end is one that has ended, after half a minute") {
  GuardRig rig;
  rig.step();
  rig.ranks[2].beat.section = "failed 8";
  CHECK(!rig.found_after(29'000, false));
  const auto found = [&] {
    while (rig.ranks[2].idle_ms < 31'000)
      if (auto one = rig.look()) return one;
    return std::optional<GuardFinding>();
  }();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::rank_ended);
  CHECK(found->rank == 2);
  CHECK(found->cause == "rank 2 on n2 has failed and does not end");
}

TEST_CASE("guard: a launch of which no rank comes past its start accuses none of them, one that is stopped it does") {
  for (const bool stopped : {false, true}) {
    CAPTURE(stopped);
    GuardRig rig;
    rig.settings.startup = {60};
    rig.guard = LaunchGuard(rig.settings, true);
    rig.guard.new_launch(rig.now_ms, 1);
    for (RankObservation& rank : rig.ranks) rank.beat.section = beat_start, rank.beat.step = -1;
    if (stopped) rig.ranks[1].process = ProcessState::stopped;
    std::optional<GuardFinding> found;
    for (int looks = 0; looks < 2'000 && !found; ++looks) found = rig.look();
    REQUIRE(found);
    CHECK(found->kind == GuardFinding::Kind::hang);
    CHECK(found->rank == (stopped ? 1 : -1));
    CHECK(found->host.empty() == !stopped);
    CHECK((found->cause.find("no rank has come past its start") == 0) == !stopped);
  }
}

TEST_CASE("guard: ranks that end while a node has just gone away are that node's, for a while") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.hosts[1].connected = false;
  rig.ranks[0].process = ProcessState::ended;
  const auto after = rig.found_after(10'000, true);
  REQUIRE(after);
  CHECK(*after <= 1'500);
  rig.guard.new_launch(rig.now_ms, 1);
  rig.hosts[1].connected = true, rig.hosts[1].apart_ms = 0;
  CHECK(rig.look()->kind == GuardFinding::Kind::rank_ended);
  rig.guard.new_launch(rig.now_ms, 1);
  rig.hosts[1].connected = false, rig.hosts[1].apart_ms = 5'000;  // long away, and nothing came of it
  rig.step();
  CHECK(rig.look()->kind == GuardFinding::Kind::rank_ended);
}

TEST_CASE("guard: ranks that finished are no fault, and programs of others may end one by one") {
  GuardRig rig;
  for (RankObservation& rank : rig.ranks) rank.beat.section = beat_finished, rank.process = ProcessState::ended;
  CHECK(!rig.look());
  rig.ranks[1].beat.section = beat_start;  // its launcher will say
  CHECK(!rig.look());
  rig.ranks[1].beat.section = "train";
  LaunchGuard of_a_command(rig.settings, false);
  CHECK(!of_a_command.look(rig.now_ms, rig.ranks, rig.hosts));
  CHECK(rig.look());
}

TEST_CASE("guard: a node whose agent alone has died is not lost as long as another one is on its way") {
  GuardRig rig;
  rig.hosts[1].connected = false;
  rig.hosts[1].agent_comes = true;  // the others stand still in the middle of a long step
  CHECK(!rig.found_after(15'000, true));
  rig.hosts[1].agent_comes = false;
  CHECK(rig.found_after(1'000, true));
}

TEST_CASE(
    "guard: a rank that ended before it beat is its launcher's to report, and a launcher that does not is not waited "
    "for") {
  GuardRig rig;
  for (RankObservation& rank : rig.ranks) rank.beat.section = beat_start;
  rig.ranks[1].process = ProcessState::ended;
  rig.ranks[1].idle_ms = 60'000;  // where it stood for long before
  CHECK(!rig.look());
  const auto after = rig.found_after(10'000, false);
  REQUIRE(after);
  CHECK(*after >= 1'900);
  CHECK(*after <= 2'100);
  rig.guard.new_launch(rig.now_ms, 1);
  CHECK(!rig.look());  // another launch, another two seconds
}

TEST_CASE("guard: a node whose agent's connection broke and stays broken is lost within two seconds") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.hosts[1].connected = false;
  const auto after = rig.found_after(10'000, true);
  REQUIRE(after);
  CHECK(*after <= 1'500);
}

TEST_CASE("guard: which node was lost is known also where nobody has looked for faults since") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.hosts[1].connected = false, rig.hosts[1].apart_ms = 3'000;
  for (RankObservation& rank : rig.ranks) rank.idle_ms += 3'000;
  CHECK(rig.guard.lost_host_at(rig.now_ms + 3'000, rig.ranks, rig.hosts)->host == "n2");
  rig.step();  // the others have gone on in the meantime
  CHECK(!rig.guard.lost_host_at(rig.now_ms + 3'100, rig.ranks, rig.hosts));
  rig.hosts[1].apart_ms = 100;  // all agents go at a cancellation, none long before it
  CHECK(!rig.guard.lost_host_at(rig.now_ms + 30'000, rig.ranks, rig.hosts));
}

TEST_CASE("guard: silence of control alone loses no node as long as its ranks' peers take steps") {
  GuardRig rig;
  rig.hosts[1].connected = false;
  CHECK(!rig.found_after(60'000, true, true));
  // Then they stand still, too.
  const auto after = rig.found_after(10'000, true);
  REQUIRE(after);
  CHECK(*after <= 1'000);
}

TEST_CASE("guard: peers that step slowly do not stand still; a node is lost once they have for as long as is asked") {
  for (const auto& [every_ms, is_lost] : {std::pair{300, false}, {700, false}, {5'000, true}}) {
    CAPTURE(every_ms);
    GuardRig rig;
    rig.hosts[1].connected = false;
    bool lost = false;
    for (std::int64_t ms = 50; ms <= 20'000 && !lost; ms += 50) {
      rig.hosts[1].silent_ms += 50, rig.hosts[1].apart_ms += 50;
      if (ms % every_ms == 0) rig.step();
      lost = rig.look().has_value();
    }
    CHECK(lost == is_lost);
  }
}

TEST_CASE("guard: time in which the lead itself stood still is no node's silence") {
  GuardRig rig;
  const std::int64_t host_silent_ms = static_cast<std::int64_t>(rig.settings.host_silent.value * 1000);
  rig.step();
  CHECK(!rig.look());
  CHECK(!rig.found_after(3'000, true));
  rig.now_ms += 4'000, rig.hosts[1].silent_ms += 4'000;  // a cut of three seconds, and then nobody looked
  CHECK(!rig.look());
  const auto after = rig.found_after(20'000, true);
  REQUIRE(after);
  CHECK(*after >= host_silent_ms - 3'000 - 300);
  CHECK(*after <= host_silent_ms - 3'000 + 300);
  // What was before the node was last heard excuses nothing.
  GuardRig later;
  later.now_ms += 4'000;
  later.step();
  CHECK(!later.look());
  CHECK(!later.found_after(3'000, false));
  later.step();
  const auto as_ever = later.found_after(20'000, true);
  REQUIRE(as_ever);
  CHECK(*as_ever <= host_silent_ms + 100);
  // A connection that broke has its second of looks to come back.
  GuardRig apart;
  apart.step();
  CHECK(!apart.look());
  CHECK(!apart.found_after(1'000, false));
  apart.hosts[1].connected = false;
  apart.now_ms += 3'000, apart.hosts[1].apart_ms = 3'000, apart.hosts[1].silent_ms = 3'000;
  CHECK(!apart.look());
  CHECK(apart.found_after(1'500, true));
}

TEST_CASE("guard: a cut of three seconds loses no node, one of more than host_silent does") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  CHECK(!rig.found_after(3'000, true));  // its connection is silent, but stands
  rig.hosts[1].silent_ms = 0;
  CHECK(!rig.look());
  const auto after = rig.found_after(20'000, true);
  REQUIRE(after);
  CHECK(*after <= static_cast<std::int64_t>(rig.settings.host_silent.value * 1000) + 100);
}

TEST_CASE("guard: a node that is only silent is not lost while all wait for a rank of another one that is stopped") {
  GuardRig rig;
  rig.settings.host_silent = {2};
  rig.settings.hang_floor = {60};
  rig.guard = LaunchGuard(rig.settings, true);
  rig.guard.new_launch(rig.now_ms, 1);
  rig.step();
  CHECK(!rig.look());
  rig.ranks[1].process = ProcessState::stopped;
  CHECK(!rig.found_after(6'000, true));
  rig.ranks[1].process = ProcessState::running;  // nothing else explains that they stand still
  auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::host_lost);
  CHECK(found->host == "n2");
  // One whose agent is gone is lost in any case; and so is one whose own ranks are the stopped ones.
  for (const int stopped : {1, 2}) {
    rig.guard.new_launch(rig.now_ms, 1);
    rig.ranks[1].process = rig.ranks[2].process = ProcessState::running;
    rig.ranks[static_cast<std::size_t>(stopped)].process = ProcessState::stopped;
    rig.hosts[1].connected = stopped != 1;
    rig.hosts[1].silent_ms = rig.hosts[1].apart_ms = 0;
    rig.step();
    CHECK(!rig.look());
    CHECK(rig.found_after(6'000, true));
  }
}

TEST_CASE("guard: a node that was never heard of, or has no ranks, is not missed") {
  GuardRig rig;
  rig.hosts[1].ever_heard = false, rig.hosts[1].connected = false;
  CHECK(!rig.found_after(30'000, true));
  rig.hosts[1].ever_heard = true;
  for (RankObservation& rank : rig.ranks) rank.host = "n1";
  rig.guard.new_launch(rig.now_ms, 1);
  CHECK(!rig.found_after(30'000, true));
}

TEST_CASE("guard: a rank that stands still is suspected, named, and found to hang after the learned time") {
  GuardRig rig;
  for (int i = 0; i < 200; ++i) {
    if (i % 4 == 0) rig.step();
    CHECK(!rig.look());
    CHECK(!rig.guard.suspicion());
  }
  rig.ranks[2].process = ProcessState::stopped;
  std::int64_t suspected_ms = 0, found_ms = 0;
  for (const std::int64_t begin = rig.now_ms; rig.now_ms - begin < 120'000 && found_ms == 0;) {
    const auto found = rig.look();
    if (rig.guard.suspicion() && suspected_ms == 0) {
      suspected_ms = rig.now_ms - begin;
      REQUIRE(!rig.guard.suspicion()->culprits.empty());
      CHECK(rig.guard.suspicion()->culprits.front().rank == 2);
    }
    if (!found) continue;
    found_ms = rig.now_ms - begin;
    CHECK(found->kind == GuardFinding::Kind::hang);
    CHECK(found->rank == 2);
    CHECK(found->host == "n2");
    CHECK(found->process == ProcessState::stopped);  // what it was before it was ended
  }
  CHECK(suspected_ms > 1'000);
  CHECK(suspected_ms < 2'000);  // three steps take less
  CHECK(found_ms > 44'500);     // the floor of what is learned
  CHECK(found_ms < 46'000);
}

namespace {
// After enough steps for learned timeouts, ranks stand in collective number 9 of dp but for `outside`, which has not
// come.
GuardRig stuck_rig(int outside = -1) {
  GuardRig rig;
  for (RankObservation& rank : rig.ranks) rank.beat.communicators = {{"dp", 8, 8}}, rank.beat.waits_in = -1;
  for (int i = 0; i < 200; ++i) {
    if (i % 4 == 0) rig.step();
    CHECK(!rig.look());
  }
  for (RankObservation& rank : rig.ranks)
    if (rank.rank != outside) rank.beat.communicators[0].enqueued = 9, rank.beat.waits_in = 0;
  return rig;
}
// Looks until a finding, with polls of all that wait but `mute`.
std::optional<GuardFinding> look_until_found(GuardRig& rig, std::int64_t at_most_ms, int mute = -1) {
  for (const std::int64_t begin = rig.now_ms; rig.now_ms - begin < at_most_ms;) {
    for (RankObservation& rank : rig.ranks)
      if (rank.beat.waits_in >= 0 && rank.rank != mute) ++rank.beat.polls;
    if (auto found = rig.look()) return found;
  }
  return std::nullopt;
}
}  // namespace

TEST_CASE("guard: all ranks in a collective and nobody outside is a stuck collective, which an order may end") {
  GuardRig rig = stuck_rig();
  const std::int64_t begin = rig.now_ms;
  const auto found = look_until_found(rig, 60'000);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::stuck_collective);
  CHECK(found->rank == -1);
  CHECK(found->host.empty());
  CHECK(found->no_order.empty());
  CHECK(found->cause.find("all ranks live and wait in dp") == 0);
  CHECK(rig.now_ms - begin > 44'000);  // no sooner than any hang
  CHECK(rig.now_ms - begin < 46'000);

  // Ordered to go on, they are given their time again; who stands still anew is found by what was learned.
  rig.guard.restarted(rig.now_ms, 2);
  const std::int64_t ordered = rig.now_ms;
  CHECK(!look_until_found(rig, 40'000));
  CHECK(look_until_found(rig, 10'000));
  CHECK(rig.now_ms - ordered < 46'000);
}

TEST_CASE("guard: a rank that is stuck inside a call hears no order, and is the one to blame") {
  GuardRig rig = stuck_rig();
  for (RankObservation& rank : rig.ranks) rank.beat.polls = 1;
  const auto found = look_until_found(rig, 60'000, 2);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::stuck_collective);
  CHECK(found->rank == 2);
  CHECK(found->host == "n2");
  CHECK(found->no_order == "rank 2 is stuck inside a call and hears no order");
}

TEST_CASE("guard: where one rank stands outside of the collective, that one hangs") {
  GuardRig rig = stuck_rig(1);
  const auto found = look_until_found(rig, 60'000);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::hang);
  CHECK(found->rank == 1);
  CHECK(found->host == "n1");
  // Also one that has come to its end and left the others waiting.
  GuardRig ended = stuck_rig();
  ended.ranks[3].beat.section = beat_finished, ended.ranks[3].beat.waits_in = -1;
  const auto left_alone = look_until_found(ended, 60'000);
  REQUIRE(left_alone);
  CHECK(left_alone->kind == GuardFinding::Kind::hang);
}

TEST_CASE("guard: a hang is only reported where the stage says so, and not looked for where it says ignore") {
  for (const char* on_hang : {"report", "ignore"}) {
    GuardRig rig;
    rig.settings.on_hang = on_hang;
    rig.guard = LaunchGuard(rig.settings, true);
    rig.guard.new_launch(rig.now_ms, 1);
    for (int i = 0; i < 40; ++i) {
      rig.step();
      CHECK(!rig.look());
    }
    bool suspected = false;
    for (int i = 0; i < 40'000; ++i) {
      CHECK(!rig.look());
      suspected = suspected || rig.guard.suspicion();
    }
    CHECK(suspected == (rig.settings.on_hang == "report"));
  }
}

TEST_CASE("guard: a program of others that has not beaten is not looked at") {
  GuardRig rig;
  LaunchGuard of_a_command(rig.settings, false);
  of_a_command.new_launch(rig.now_ms, 1);
  for (RankObservation& rank : rig.ranks) rank.beat.section = beat_start;
  for (int i = 0; i < 50'000; ++i) CHECK(!of_a_command.look(rig.now_ms += 50, rig.ranks, rig.hosts));
}

TEST_CASE("guard: a fault that all ranks survive is found, and over once they are ordered to a later epoch") {
  GuardRig rig;
  for (RankObservation& rank : rig.ranks) rank.beat.epoch = 1;
  CHECK(!rig.look());
  rig.ranks[1].beat.section = rig.ranks[3].beat.section = beat_faulted;
  rig.ranks[1].idle_ms = 80, rig.ranks[3].idle_ms = 20;
  const auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::faulted);
  CHECK(found->rank == 1);
  rig.guard.restarted(rig.now_ms, 2);
  CHECK(!rig.look());  // they have not left yet
  for (RankObservation& rank : rig.ranks) rank.beat.epoch = 2, rank.beat.section = "micro_batch";
  CHECK(!rig.look());
  rig.ranks[0].beat.section = beat_faulted;
  CHECK(rig.look());
  // With a process that does not run, that one is the fault.
  rig.guard.restarted(rig.now_ms, 2);
  rig.ranks[2].process = ProcessState::stopped;
  CHECK(!rig.look());
}

TEST_CASE("guard: a node that is not fit to work on is left while its ranks still work, one without ranks is not") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.hosts.push_back({"n3", true, true, 0, 0, FaultClass::gpu_lost, "GPU 0: XID 79"});  // a spare
  CHECK(!rig.look());
  rig.step();
  rig.hosts[1].unfit = FaultClass::gpu_remap_failed;
  rig.hosts[1].unfit_why = "GPU 1: a memory row could not be remapped";
  const auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::unhealthy);
  CHECK(found->fault == FaultClass::gpu_remap_failed);
  CHECK(found->host == "n2");
  CHECK(found->rank == -1);
  CHECK(found->step == rig.ranks[0].beat.step);
  CHECK(found->cause == "node n2 is not fit to work on: GPU 1: a memory row could not be remapped");
  CHECK(!rig.look());  // once
}

TEST_CASE("guard: an unfit node is named before the rank that survived what it did") {
  GuardRig rig;
  rig.step();
  CHECK(!rig.look());
  rig.ranks[0].beat.section = beat_faulted, rig.ranks[0].beat.epoch = 1;
  rig.hosts[1].unfit = FaultClass::nic_down;
  const auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::unhealthy);
  CHECK(found->host == "n2");
}

TEST_CASE("guard: ranks out of step are found long before the hang's timeout, with the one that is behind") {
  for (const std::string policy : {"restart", "report"}) {
    CAPTURE(policy);
    GuardRig rig;
    rig.settings.on_hang = policy;
    rig.guard = LaunchGuard(rig.settings, true);
    rig.guard.new_launch(rig.now_ms, 1);
    for (RankObservation& rank : rig.ranks) {
      rank.beat.communicators = {{"dp", rank.rank == 3 ? 4U : 5U, 4U}};
      rank.beat.waits_in = 0;
    }
    std::optional<GuardFinding> found;
    int warned = 0;
    for (std::int64_t idle = 0; idle < 6'000 && !found; idle += 50) {
      for (RankObservation& rank : rig.ranks) rank.idle_ms = idle, ++rank.beat.polls;
      found = rig.look();
      for (const WarningEvent& one : rig.guard.warnings()) warned += one.kind == "desynchronised" && one.rank == 3;
    }
    CHECK(warned == 1);
    CHECK(found.has_value() == (policy == "restart"));
    if (!found) continue;
    CHECK(found->kind == GuardFinding::Kind::desynchronised);
    CHECK(found->rank == 3);
    CHECK(found->host == "n2");
    CHECK(found->detect_s < 3);
  }
}

TEST_CASE(
    "guard: ranks that beat and complete no step are warned of, then found; programs of others are only reported") {
  for (const bool own_program : {true, false}) {
    CAPTURE(own_program);
    GuardRig rig;
    rig.settings.no_progress = Seconds{60};
    rig.guard = LaunchGuard(rig.settings, own_program);
    rig.guard.new_launch(rig.now_ms, 1);
    const auto beat = [&](int look) {
      for (RankObservation& rank : rig.ranks) rank.beat.section = look / 4 % 2 ? "read" : "micro_batch";
    };
    for (int look = 0; look < 80; ++look) {
      beat(look);
      if (look % 4 == 0) rig.step();
      CHECK(!rig.look());
    }
    std::optional<GuardFinding> found;
    int warned = 0;
    for (int look = 0; look < 1'400 && !found; ++look) {
      beat(look);
      found = rig.look();
      warned += static_cast<int>(rig.guard.warnings().size());
    }
    CHECK(warned == 2);  // suspect and act
    CHECK(found.has_value() == own_program);
    if (found) CHECK(found->kind == GuardFinding::Kind::no_progress);
  }
}

TEST_CASE("guard: what the settings demand comes after every fault") {
  GuardRig rig;
  GuardFinding demand;
  demand.kind = GuardFinding::Kind::slow_rank;
  rig.step();
  CHECK(!rig.look());
  rig.ranks[1].process = ProcessState::ended;
  auto found = rig.guard.look(rig.now_ms += 50, rig.ranks, rig.hosts, demand);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::rank_ended);
  rig.ranks[1].process = ProcessState::running;
  rig.guard.new_launch(rig.now_ms, 2);
  found = rig.guard.look(rig.now_ms += 50, rig.ranks, rig.hosts, demand);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::slow_rank);
}

TEST_CASE("guard: a training that is rolled back again and again without getting further makes no progress") {
  GuardRig rig;
  const auto to = [&](std::int64_t step) {
    for (RankObservation& rank : rig.ranks) rank.beat.step = step;
    return rig.look();
  };
  std::optional<GuardFinding> found;
  int times = 0;
  for (; times < 10 && !found; ++times) {
    for (std::int64_t step = 1; step <= 8 && !found; ++step) found = to(step);
    if (!found) rig.guard.restarted(rig.now_ms, times + 2);  // in-process: the processes stay
  }
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::no_progress);
  CHECK(times == 6);  // the fifth roll-back
  rig.guard.new_launch(rig.now_ms, 20);
  for (std::int64_t step = 1; step <= 8; ++step) CHECK(!to(step));
}

TEST_CASE("guard: for how long ranks of an adopted launch have stood still their pages say") {
  GuardRig rig;
  rig.step();
  rig.guard.adopt_launch(rig.now_ms, 1, rig.now_ms - 900);
  rig.hosts[1].connected = false, rig.hosts[1].apart_ms = 850, rig.hosts[1].silent_ms = 850;
  for (RankObservation& rank : rig.ranks) rank.idle_ms = 860;
  const auto found = rig.look();
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::host_lost);
  CHECK(found->host == "n2");

  // Not if they have moved since, as beside a lead that alone has died; nor before anything is known of them.
  rig.guard.adopt_launch(rig.now_ms, 1, rig.now_ms - 900);
  for (RankObservation& rank : rig.ranks) rank.idle_ms = 40;
  CHECK(!rig.found_after(2'000, true, true));
  rig.guard.adopt_launch(rig.now_ms, 1, rig.now_ms - 900);
  for (RankObservation& rank : rig.ranks) rank.seen = false;
  CHECK(!rig.found_after(650, true));
  // An old report does not make an old step: what counts is when the page was looked at last, and what a rank has done
  // since then is not known.
  rig.guard.adopt_launch(rig.now_ms, 1, rig.now_ms - 900);
  for (RankObservation& rank : rig.ranks) rank.seen = true, rank.idle_ms = 100, rank.silent_ms = 200;
  CHECK(!rig.found_after(600, true));
  CHECK(rig.found_after(200, true));
}
