// A lead without agents has its own node looked at, and writes what is wrong with it; nobody is ended for it.
#include <doctest/doctest.h>

#include "contracts/events/event.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

// Of everything but disks: how full this machine's are is not the tests' to choose.
std::vector<Event> health_events(LeadRig& rig) {
  std::uint64_t offset = 0;
  const auto events = read_events(rig.attempt.events_path(), offset);
  std::vector<Event> health;
  if (events.ok())
    for (const Event& event : *events)
      if (event.kind == "health" && event.fields.get_string("check") != "disk") health.push_back(event);
  return health;
}

}  // namespace

TEST_CASE("a lead alone reports its node's check that failed, with the last line, and lets the work be") {
  LeadRig rig("while [ ! -e " + std::string("$LONGHAUL_OUT/../../go") + " ]; do sleep 0.02; done");
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

TEST_CASE("an XID that a test asks for is said by the node's simulated GPU and found there; real GPUs say none") {
  for (const bool simulated : {true, false}) {
    CAPTURE(simulated);
    LeadRig rig("while [ ! -e " + std::string("$LONGHAUL_OUT/../../go") + " ]; do sleep 0.02; done");
    REQUIRE(make_directories(rig.root() + "/lib").ok());
    const std::string library = LONGHAUL_BINARY_DIR "/bin/liblonghaul_fake_nvml.so";
    if (simulated) REQUIRE(::symlink(library.c_str(), (rig.root() + "/lib/libnvidia-ml.so.1").c_str()) == 0);
    REQUIRE(write_file_renamed(rig.root() + "/gpus", "at 0 devices 2\n").ok());
    rig.environment = {{"LD_LIBRARY_PATH", rig.root() + "/lib"}, {"FAKE_NVML_SCRIPT", rig.root() + "/gpus"}};
    FaultRequest xid{"xid", 0};
    xid.xid = 79;
    rig.attempt.faults.allowed = true;
    rig.attempt.faults.at = {xid};
    const pid_t lead = rig.start();
    const auto reported = [&](const std::string& part) {
      return rig.text("work/attempts/1/events.jsonl").find(part) != std::string::npos;
    };
    rig.until([&] { return reported(simulated ? "\"gpu_lost\"" : "not injected: xid 79 of rank 0: "); });
    CHECK(reported("\"injected\"") == simulated);
    CHECK(reported("has no simulated GPUs") == !simulated);
    if (simulated) {
      CHECK(health_events(rig).front().fields.get_string("device") == "GPU 0");
      CHECK(health_events(rig).front().fields.get_integer("xid") == 79);
    }
    REQUIRE(write_file_renamed(rig.attempt.attempt_dir + "/go", "").ok());
    CHECK(rig.wait(lead).success());
  }
}

TEST_CASE("a lead that is asked not to look at health does not") {
  LeadRig rig("sleep 0.5");
  rig.attempt.resiliency.health = "off";
  rig.attempt.resiliency.health_command = "false";
  CHECK(rig.wait(rig.start()).success());
  CHECK(health_events(rig).empty());
}

TEST_CASE("a program that ends soon after its node's check failed is reported with what was found there") {
  LeadRig rig("while [ ! -e " + std::string("$LONGHAUL_OUT/../../go") + " ]; do sleep 0.02; done; kill -9 $$");
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
