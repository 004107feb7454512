// What a lead keeps of the health of its nodes.
#include "worker/lead/agents/host_health_watch.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "tests/support/observations.h"

namespace longhaul {
namespace {

HealthReport health_report_of(std::vector<HealthNote> notes, std::int64_t since = 77) {
  HealthReport report;
  report.since = since, report.looks = 1, report.notes = std::move(notes);
  return report;
}
HealthFinding fell_off_the_bus() {
  HealthFinding finding = health_finding("gpu", FaultClass::gpu_lost, "GPU 0", "XID 79 (GPU has fallen off the bus)");
  finding.xid = 79;
  return finding;
}
HealthFinding low_disk() {
  return health_finding("disk", FaultClass::disk_low, "/runs", "1 % is free");
}

}  // namespace

TEST_CASE("a finding is taken once however often it is reported, and anew from another agent of the node") {
  HostHealthWatch watch;
  CHECK(!watch.looked("n1"));
  CHECK(watch.take("n1", {}, 10).empty());
  CHECK(!watch.looked("n1"));
  CHECK(watch.take("n1", health_report_of({{1, low_disk()}}), 10).size() == 1);
  CHECK(watch.looked("n1"));
  CHECK(watch.take("n1", health_report_of({{1, low_disk()}}), 20).empty());
  CHECK(watch.take("n1", health_report_of({{1, low_disk()}, {2, fell_off_the_bus()}}), 30).size() == 1);
  CHECK(watch.take("n2", health_report_of({{1, low_disk()}}), 40).size() == 1);
  CHECK(watch.take("n1", health_report_of({{1, low_disk()}}, 78), 50).size() == 1);
}

TEST_CASE("a node with an error that accuses it for sure is not fit; warnings leave it so") {
  HostHealthWatch watch;
  (void)watch.take("n1", health_report_of({{1, low_disk()}}), 10);
  CHECK(watch.unfit("n1") == nullptr);
  (void)watch.take("n1", health_report_of({{1, low_disk()}, {2, fell_off_the_bus()}}), 20);
  REQUIRE(watch.unfit("n1") != nullptr);
  CHECK(watch.unfit("n1")->finding.xid == 79);
  CHECK(watch.unfit("n1")->at_ms == 20);
  CHECK(watch.unfit("n2") == nullptr);
}

TEST_CASE("what most nodes have accuses none of them: the check is wrong, or something that they share") {
  HostHealthWatch watch;
  const HealthFinding refused = health_finding("site", FaultClass::site_check, "/check", "not found");
  for (const char* host : {"n1", "n2", "n3", "n4"}) (void)watch.take(host, health_report_of({}), 5);
  for (const char* host : {"n1", "n2"}) (void)watch.take(host, health_report_of({{1, refused}}), 10);
  CHECK(watch.unfit("n1") != nullptr);
  (void)watch.take("n3", health_report_of({{1, fell_off_the_bus()}}), 15);
  CHECK(watch.unfit("n1") != nullptr);  // another class
  (void)watch.take("n4", health_report_of({{1, refused}}), 20);
  CHECK(watch.unfit("n1") == nullptr);
  CHECK(watch.unfit("n4") == nullptr);
  CHECK(watch.unfit("n3") != nullptr);
}

TEST_CASE("what was seen explains a fault: by host, class and time") {
  HostHealthWatch watch;
  (void)watch.take("n1", health_report_of({{1, low_disk()}, {2, fell_off_the_bus()}}), 1000);
  (void)watch.take("n2", health_report_of({{1, low_disk()}}), 2000);
  const auto all = watch.health_seen();
  REQUIRE(all.size() == 3);
  CHECK(all[1].host == "n1");
  CHECK(all[1].source == ObservationSource::health);
  CHECK(all[1].what == "GPU 0: XID 79 (GPU has fallen off the bus)");
  CHECK(watch.health_seen(1500).size() == 1);
  const FaultRecord verdict = verdict_of({testing::observe_exit(3, "n1", -1, 6, true, 1500), all[0], all[1], all[2],
                                          testing::observe_exit(1, "n2", 1, 0, true, 1400)});
  CHECK(verdict.fault == FaultClass::gpu_lost);
  CHECK(verdict.host == "n1");
  CHECK(verdict.rank == 3);
}

TEST_CASE(
    "the same of many nodes is reported of a few, a variable of the environment once, what condemns a node always") {
  HostHealthWatch watch;
  const HealthFinding variable = health_finding("environment", FaultClass::environment, "NCCL_IB_DISABLE", "= 1");
  int disks = 0, variables = 0, lost = 0;
  for (int i = 0; i < 100; ++i)
    for (const HostFinding& found :
         watch.take(format("n{}", i), health_report_of({{1, low_disk()}, {2, variable}, {3, fell_off_the_bus()}}), 5)) {
      if (found.reported_often) continue;
      disks += found.finding.fault == FaultClass::disk_low;
      variables += found.finding.fault == FaultClass::environment;
      lost += found.finding.fault == FaultClass::gpu_lost;
    }
  CHECK(disks == 8);
  CHECK(variables == 1);
  CHECK(lost == 100);
}

TEST_CASE("the event of a finding names the node, the class and the driver's event") {
  HostHealthWatch watch;
  const auto fresh = watch.take("n3", health_report_of({{1, fell_off_the_bus()}}), 5);
  REQUIRE(fresh.size() == 1);
  const Value fields = to_value(fresh[0]);
  CHECK(fields.get_string("host") == "n3");
  CHECK(fields.get_string("class") == "gpu_lost");
  CHECK(fields.get_string("severity") == "error");
  CHECK(fields.get_integer("xid") == 79);
}

TEST_CASE("a day after the newest finding a node is as good as any, and what many had is reported again") {
  HostHealthWatch watch;
  const std::int64_t hour = 3'600'000;
  (void)watch.take("n1", health_report_of({{1, fell_off_the_bus()}}), 0);
  (void)watch.take("n1", health_report_of({{1, fell_off_the_bus()}, {2, fell_off_the_bus()}}), 20 * hour);
  (void)watch.take("n1", health_report_of({}), 40 * hour);
  REQUIRE(watch.unfit("n1") != nullptr);
  CHECK(watch.unfit("n1")->at_ms == 0);
  (void)watch.take("n2", health_report_of({}), 45 * hour);
  CHECK(watch.unfit("n1") == nullptr);
  (void)watch.take("n1", health_report_of({{3, fell_off_the_bus()}}), 46 * hour);
  CHECK(watch.unfit("n1") != nullptr);

  const HealthFinding variable = health_finding("environment", FaultClass::environment, "NCCL_DEBUG", "TRACE");
  CHECK(!watch.add("n1", variable, 50 * hour).reported_often);
  CHECK(watch.add("n2", variable, 51 * hour).reported_often);
  (void)watch.take("n2", health_report_of({}), 76 * hour);
  CHECK(!watch.add("n3", variable, 76 * hour).reported_often);
}

}  // namespace longhaul
