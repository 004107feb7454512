#include "worker/lead/monitor/rank_watch.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/worker/agent_rig.h"

using namespace longhaul;

TEST_CASE("rank watch: what agents report of this launch is taken over, and nothing else") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  PretendedRank zero(rig.scratch.path(), 0), beyond(rig.scratch.path(), 7);
  zero.page->step(3);
  Launch launch;
  launch.launch = 2, launch.ranks = 2;
  launch.hosts = {"n1"}, launch.rank_host = {0, 0};
  launch.launch_dir = rig.path("elsewhere");
  RankWatch watch(rig.clock);
  watch.new_launch(launch, page_folders(launch, {}));
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0, 7}}});
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 0) != nullptr; }));
  watch.look(rig.table.get());
  CHECK(watch.ranks().empty());  // of the launch before
  rig.table->watch(2, rig.scratch.path(), {{"n1", {0, 7}}});
  const auto step = [&] {
    watch.look(rig.table.get());
    return watch.rank(0) ? watch.rank(0)->beat.step : -1;
  };
  CHECK(rig.sees([&] { return step() == 3; }));
  CHECK(watch.rank(7) == nullptr);
  zero.page->step(4);
  CHECK(rig.sees([&] { return step() == 4; }));
}

TEST_CASE("rank watch: a running rank of which an agent finds neither page nor process has ended") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  PretendedRank zero(rig.scratch.path(), 0), one(rig.scratch.path(), 1);
  Launch launch;
  launch.launch = 2, launch.ranks = 2;
  launch.hosts = {"n1"}, launch.rank_host = {0, 0};
  launch.launch_dir = rig.path("elsewhere");
  RankWatch watch(rig.clock, 200);
  watch.new_launch(launch, page_folders(launch, {}));
  const auto alive = [&] {
    watch.look(rig.table.get());
    return watch.alive();
  };
  rig.table->watch(2, rig.scratch.path(), {{"n1", {0, 1}}});
  REQUIRE(rig.sees([&] { return alive() == std::vector<int>{0, 1}; }));
  // As an agent sees it that comes after another one was killed with its rank, and the folder was cleaned meanwhile. (A
  // rank that ended beside the agent of now would be reported as that.)
  REQUIRE(::unlink(zero.path.c_str()) == 0);
  rig.table->watch(2, rig.scratch.path(), {{"n1", {0, 1}}});
  CHECK(rig.sees([&] { return alive() == std::vector<int>{1}; }));
  REQUIRE(watch.rank(0));
  CHECK(watch.rank(0)->state == ProcessState::ended);
}
