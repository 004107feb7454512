// Long steps and long saves: what silence, standing still and a slow file system are not.
#include <doctest/doctest.h>

#include "worker/lead/monitor/launch_guard.h"

using namespace longhaul;

namespace {

// Steps of 20 s on three nodes, of two ranks each. In every second a rank comes into another section; at the end of a
// step all meet in dp.
struct LongSteps {
  LaunchGuard guard;
  std::vector<RankObservation> ranks;
  std::vector<HostObservation> hosts{{"n1", true, true, 0, 0}, {"n2", true, true, 0, 0}, {"n3", true, true, 0, 0}};
  std::int64_t now_ms = 1'000'000, second = 0;

  explicit LongSteps(const ResiliencySettings& settings = {}) : guard(resiliency_for(settings, "pretrain"), true) {
    for (int rank = 0; rank < 6; ++rank) {
      RankObservation sight;
      sight.rank = rank, sight.host = hosts[static_cast<std::size_t>(rank / 2)].host;
      sight.seen = true, sight.process = ProcessState::running;
      sight.beat.communicators = {{"dp", 0, 0}}, sight.beat.waits_in = beat_waits_nowhere;
      ranks.push_back(sight);
    }
    guard.new_launch(now_ms, 1);
  }
  const HostObservation& sight_of(const RankObservation& rank) const {
    return hosts[static_cast<std::size_t>(rank.rank / 2)];
  }
  // A second of the training; ranks that are not heard of are as they were.
  std::optional<GuardFinding> work(std::vector<std::size_t> silent = {}, bool stands = false) {
    ++second;
    for (RankObservation& rank : ranks) {
      const bool heard = sight_of(rank).silent_ms == 0;
      if (stands || !heard) continue;
      rank.beat.step = second / 20, rank.idle_ms = 0;
      rank.beat.section = second % 2 == 0 ? "micro_batch" : "reduce";
    }
    return wait(1'000, std::move(silent));
  }
  std::optional<GuardFinding> wait(std::int64_t ms, std::vector<std::size_t> silent) {
    for (std::int64_t passed = 0; passed < ms; passed += 50) {
      for (const std::size_t host : silent) hosts[host].silent_ms += 50;
      for (RankObservation& rank : ranks) {
        rank.silent_ms = sight_of(rank).silent_ms;
        if (rank.silent_ms == 0) rank.idle_ms += 50;
      }
      if (auto found = guard.look(now_ms += 50, ranks, hosts)) return found;
    }
    return std::nullopt;
  }
  void work_well(int seconds) {
    for (int i = 0; i < seconds; ++i) REQUIRE(!work());
  }
  // The ranks of the others have come to the next collective, and those of that node have not.
  void stand_for(const std::string& host) {
    for (RankObservation& rank : ranks)
      if (rank.host != host) ++rank.beat.communicators[0].enqueued, rank.beat.waits_in = 0;
  }
};

}  // namespace

TEST_CASE("guard: with steps of 20 s a node that is silent for 15 s is not lost as long as the others move") {
  LongSteps rig;
  rig.work_well(200);
  for (int i = 0; i < 15; ++i) CHECK(!rig.work({1}));
  // Then they wait for its ranks.
  rig.stand_for("n2");
  const std::int64_t begun_ms = rig.now_ms;
  const auto found = rig.wait(10'000, {1});
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::host_lost);
  CHECK(found->host == "n2");
  CHECK(rig.now_ms - begun_ms <= 1'100);
}

TEST_CASE(
    "guard: others that stand still for no longer than they ever did, or for somebody else, lose no silent node") {
  LongSteps rig;
  rig.work_well(200);
  for (int i = 0; i < 6; ++i) CHECK(!rig.work({1}));
  CHECK(!rig.wait(900, {1}));  // nobody says whom it waits for, and a second is usual
  CHECK(!rig.work({1}));
  rig.stand_for("n3");  // by the pages the silent node's ranks are not awaited
  for (RankObservation& rank : rig.ranks)
    if (rank.host == "n2") rank.beat.communicators[0].enqueued = 1;
  CHECK(!rig.wait(20'000, {1}));
}

TEST_CASE("guard: what the others have done since their last report is not known, and no standing still") {
  LongSteps long_steps;
  long_steps.work_well(200);
  long_steps.stand_for("n2");
  CHECK(!long_steps.work({1}, true));  // a second, as long as any section took
  // The reports of the others are 400 ms late: they stood for a second when they were last heard.
  for (const std::size_t host : {0U, 2U}) long_steps.hosts[host].silent_ms = 350;
  long_steps.hosts[1].silent_ms = 70'000;
  CHECK(!long_steps.wait(50, {0, 1, 2}));
}

TEST_CASE("guard: where no page says whom it waits for, a node is lost after three steps without a report") {
  ResiliencySettings settings;
  settings.hang_floor = Seconds{100};
  LongSteps rig(settings);
  for (RankObservation& rank : rig.ranks) rank.beat.communicators.clear(), rank.beat.waits_in = beat_waits_unknown;
  rig.work_well(200);
  const std::int64_t begun_ms = rig.now_ms;
  CHECK(!rig.wait(40'000, {1}));
  const auto found = rig.wait(40'000, {1});
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::host_lost);
  CHECK(rig.now_ms - begun_ms >= 59'000);
  CHECK(rig.now_ms - begun_ms <= 61'000);
}

TEST_CASE("guard: nodes that fall silent together are not lost, however long the others wait for them") {
  LongSteps rig;
  rig.work_well(200);
  for (int i = 0; i < 3; ++i) CHECK(!rig.work({1, 2}));
  for (RankObservation& rank : rig.ranks)
    if (rank.host == "n1") ++rank.beat.communicators[0].enqueued, rank.beat.waits_in = 0;
  CHECK(!rig.wait(30'000, {1, 2}));
  // One of them is heard of again: the other has its silence to itself.
  rig.hosts[2].silent_ms = 0;
  for (RankObservation& rank : rig.ranks)
    if (rank.host == "n3") ++rank.beat.communicators[0].enqueued, rank.beat.waits_in = 0;
  const auto found = rig.wait(2'000, {1});
  REQUIRE(found);
  CHECK(found->host == "n2");
  // A node whose connection was closed and does not come back is lost beside a silent one.
  LongSteps closed;
  closed.work_well(200);
  closed.hosts[1].connected = false;
  closed.stand_for("n2");
  for (int i = 0; i < 100 && closed.hosts[1].apart_ms < 5'000; ++i) {
    closed.hosts[1].apart_ms += 50;
    if (const auto lost = closed.wait(50, {1, 2})) {
      CHECK(lost->host == "n2");
      return;
    }
  }
  FAIL("the closed node was not found");
}

TEST_CASE(
    "guard: a rank that waits for a write longer than any save took is no hang, and in the end the storage's fault") {
  ResiliencySettings settings;
  settings.startup = Seconds{600};
  LongSteps rig(settings);
  const auto all_in = [&](const char* section) {
    for (RankObservation& rank : rig.ranks) rank.beat.section = section, rank.idle_ms = 0;
  };
  rig.work_well(100);
  Event saved;
  saved.kind = "checkpoint";
  saved.fields = Value::make_table();
  saved.fields.set("write_s", 90.0);
  rig.guard.take({saved});
  all_in(beat_checkpoint_write);
  CHECK(!rig.wait(500'000, {}));
  for (RankObservation& rank : rig.ranks) rank.beat.written_bytes += 1 << 20;  // and that counts from the start again
  CHECK(!rig.wait(590'000, {}));
  const auto found = rig.wait(100'000, {});
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::hang);
  CHECK(found->of_storage);
}
