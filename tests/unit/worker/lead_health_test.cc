// A lead without agents has its own node looked at, and writes what is wrong with it; nobody is ended for it.
#include <doctest/doctest.h>

#include "contracts/event.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

std::vector<Event> health_events(LeadRig& rig) {
  std::uint64_t offset = 0;
  const auto events = read_events(rig.attempt.events_path(), offset);
  std::vector<Event> health;
  if (events.ok())
    for (const Event& event : *events)
      if (event.kind == "health") health.push_back(event);
  return health;
}

}  // namespace

TEST_CASE("a lead alone tells of its node's check that failed, with the last line, and lets the work be") {
  LeadRig rig("while [ ! -e " + std::string("$LONGHAUL_OUT/../go") + " ]; do sleep 0.02; done");
  REQUIRE(make_directories(rig.root()).ok());
  REQUIRE(write_file_renamed(rig.root() + "/check", "echo looking; echo fan 3 stands still; exit 4").ok());
  rig.attempt.resiliency.health_command = "sh " + rig.root() + "/check";
  const pid_t lead = rig.start();
  rig.until([&] { return !health_events(rig).empty(); });
  const Event event = health_events(rig).front();
  CHECK(event.fields.get_string("class") == "site_check");
  CHECK(event.fields.get_string("what") == "exit code 4: fan 3 stands still");
  CHECK(!event.fields.get_string("host").empty());
  REQUIRE(write_file_renamed(rig.attempt.attempt_dir + "/go", "").ok());
  CHECK(rig.wait(lead).success());
  CHECK(health_events(rig).size() == 1);
}

TEST_CASE("a lead that is told not to look at health does not") {
  LeadRig rig("sleep 0.5");
  rig.attempt.resiliency.health = "off";
  rig.attempt.resiliency.health_command = "false";
  CHECK(rig.wait(rig.start()).success());
  CHECK(health_events(rig).empty());
}

TEST_CASE("a program that ends soon after its node's check failed is told of with what was found there") {
  LeadRig rig("while [ ! -e " + std::string("$LONGHAUL_OUT/../go") + " ]; do sleep 0.02; done; kill -9 $$");
  REQUIRE(make_directories(rig.root()).ok());
  REQUIRE(write_file_renamed(rig.root() + "/check", "echo fan 3 stands still; exit 4").ok());
  rig.attempt.resiliency.health_command = "sh " + rig.root() + "/check";
  const pid_t lead = rig.start();
  rig.until([&] { return !health_events(rig).empty(); });
  REQUIRE(write_file_renamed(rig.attempt.attempt_dir + "/go", "").ok());
  CHECK(!rig.wait(lead).success());
  CHECK(rig.record().cause.find("signal 9") != std::string::npos);
  CHECK(rig.record().cause.find("fan 3 stands still") != std::string::npos);
}

}  // namespace longhaul
