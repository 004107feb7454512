// Which reservations shorten jobs.
#include "orchestrator/controller/jobs/maintenance.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("hosts of a list are counted") {
  CHECK(count_hosts("") == 0);
  CHECK(count_hosts("n1") == 1);
  CHECK(count_hosts("n[1-3,7],x") == 5);
  CHECK(count_hosts("r[1-2]n[01-10]") == 20);
  CHECK(count_hosts("a,b,c[1-4]") == 6);
  CHECK(count_hosts("n[1-") == 0);
}

TEST_CASE("the next maintenance is the earliest that takes at least half of the nodes and has not begun") {
  const auto reservation = [](const char* flags, const char* nodes, std::int64_t start_s) {
    SlurmReservation made;
    made.flags = flags;
    made.nodes = nodes;
    made.start_s = start_s;
    return made;
  };
  CHECK(next_maintenance_s({}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT,SPEC_NODES", "n[1-4]", 50)}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT,SPEC_NODES", "n1", 200)}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT", "n[1-2]", 300), reservation("MAINT,ALL_NODES", "", 200)}, 4, 100) ==
        200);
}

TEST_CASE("a plain reservation of the cluster keeps a maintenance free as well, unless it is the run's own") {
  const auto reservation = [](const char* name, const char* flags, const char* nodes) {
    SlurmReservation made;
    made.name = name;
    made.flags = flags;
    made.nodes = nodes;
    made.start_s = 200;
    return made;
  };
  CHECK(next_maintenance_s({reservation("wednesday", "SPEC_NODES", "n[1-4]")}, 4, 100) == 200);
  CHECK(next_maintenance_s({reservation("school", "SPEC_NODES", "n1")}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("ours", "SPEC_NODES", "n[1-4]")}, 4, 100, {"ours"}) == 0);
  CHECK(next_maintenance_s({reservation("float", "TIME_FLOAT,SPEC_NODES", "n[1-4]")}, 4, 100) == 0);
  Site site;
  site.config.classes.resize(1);
  site.config.classes[0].reservation = "a,b";
  RunPlan plan;
  plan.stages.resize(1);
  plan.stages[0].common.job.reservation = "c";
  CHECK(own_reservations(site, plan) == std::set<std::string>{"a", "b", "c"});
}
