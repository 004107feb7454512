// Which reservations shorten jobs.
#include "orchestrator/controller/maintenance.h"

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
  CHECK(next_maintenance_s({reservation("SPEC_NODES", "n[1-4]", 200)}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT,SPEC_NODES", "n[1-4]", 50)}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT,SPEC_NODES", "n1", 200)}, 4, 100) == 0);
  CHECK(next_maintenance_s({reservation("MAINT", "n[1-2]", 300), reservation("MAINT,ALL_NODES", "", 200)}, 4, 100) ==
        200);
}
