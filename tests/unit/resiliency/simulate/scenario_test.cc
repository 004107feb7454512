// Scenario files: what is refused and where, the scaling rule, and which latencies count as assumed.
#include "resiliency/simulate/scenario.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

const char* const small_scenario = R"(
[scenario]
name = "small"
[cluster]
gpus = 64
spares = 1
[training]
length = "30d"
step = "2s"
[saves.global]
stall = "5s"
[restart]
in_job = { stop = "1s", start = "4s", load = "2s" }
[scaling]
measured_hosts = 2
communicators = "10s"
communicators_gpus = 640
[fault.crash]
count = 4
detect = "3s"
[measured]
"restart.in_job" = "a test"
)";

std::string problems_of(const std::string& text) {
  const auto parsed = parse_scenario(text, "s.toml");
  return parsed.ok() ? "" : parsed.error().message();
}

}  // namespace

TEST_CASE("a scenario is read, with defaults for what it does not say") {
  const auto scenario = parse_scenario(small_scenario, "s.toml");
  REQUIRE_MESSAGE(scenario.ok(), scenario.error().message());
  CHECK(scenario->hosts() == 8);
  CHECK(scenario->header.trials == 20);
  CHECK(!scenario->saves.memory.enabled);
  REQUIRE(scenario->faults.size() == 1);
  CHECK(scenario->faults[0].name == "crash");
  // Four a day, as it is the cluster itself that was watched, for a day.
  CHECK(scenario->mtbf_s() == doctest::Approx(6 * 3600));
}

TEST_CASE("every problem of a scenario is reported with its place") {
  const std::string text = problems_of(
      "[scenario]\nname = \"x\"\ntrails = 5\n[cluster]\ngpus = \"many\"\n[training]\nlength = 54\n[fault.a]\n"
      "count = -1\nscope = \"gpus\"\n");
  for (const char* part :
       {"s.toml:3:1: error: unknown key 'trails' in [scenario]; did you mean 'trials'?",
        "s.toml:5:8: error: cluster.gpus", "s.toml:7:10: error: training.length is integer, expected duration",
        "s.toml:9:9: error: fault.a.count", "s.toml:10:9: error: fault.a.scope = \"gpus\" is not known",
        "nothing was simulated"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part << " is not in " << text);
}

TEST_CASE("values that are right alone and wrong together are reported as well") {
  const std::string text = problems_of(
      "[scenario]\nname = \"x\"\n[cluster]\ngpus = 100\ngpus_per_host = 8\n[training]\nlength = \"1d\"\nreplicas = 2\n"
      "replicas_min = 3\n[saves]\nglobal = { enabled = false }\n[scaling]\nmeasured_hosts = 1\n[measured]\n"
      "\"restart.in_jobs.stop\" = \"x\"\n");
  for (const char* part :
       {"s.toml:5:17: error: cluster.gpus_per_host = 8 does not divide cluster.gpus = 100",
        "s.toml:9:16: error: training.replicas_min = 3 is more than training.replicas = 2",
        "saves.global cannot be left out", "s.toml:13:18: error: scaling.measured_hosts = 1", "no faults",
        "s.toml:15:26: error: measured names no latency", "did you mean \"restart.in_job.stop\"?"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part << " is not in " << text);
  CHECK(problems_of("[cluster]\ngpus = 8\n").find("[scenario] is missing") != std::string::npos);
  CHECK(problems_of("[scenario\n").find("s.toml:1:") != std::string::npos);
}

TEST_CASE("faults that pass and faults of racks are held to what can be meant") {
  const std::string start = "[scenario]\nname = \"x\"\n[cluster]\ngpus = 64\n[training]\nlength = \"1d\"\n";
  const std::string text =
      problems_of(start +
                  "[fault.a]\ncount = 1\nlasts = \"3min\"\nloses_host = true\n[fault.b]\ncount = 1\n"
                  "scope = \"file_system\"\n[fault.c]\ncount = 1\nhosts = 9\n");
  for (const char* part :
       {"fault.a loses its host and passes by itself", "fault.b: a file system that does not come back",
        "fault.c.hosts = 9 are more than the cluster's 8"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part << " is not in " << text);
  CHECK(problems_of(start + "[fault.a]\ncount = 1\nscope = \"file_system\"\nlasts = \"3min\"\n") == "");
}

TEST_CASE("the scaling rule: a tree over the hosts, communicators by GPUs, the rest as it was") {
  const auto scenario = parse_scenario(small_scenario, "s.toml");
  REQUIRE(scenario.ok());
  const Scenario scaled = scenario->at_scale();  // 8 hosts from 2: a tree three times as deep; 64 of 640 GPUs
  CHECK(scaled.restart.in_job.stop.value == doctest::Approx(3));
  CHECK(scaled.restart.in_job.start.value == doctest::Approx(12 + 1));
  CHECK(scaled.restart.in_job.load.value == 2);
  CHECK(scaled.restart.swap.start.value == doctest::Approx(1));
  CHECK(scaled.restart.skip.start.value == 0);
  CHECK(scaled.faults[0].detect.value == 3);
  CHECK(scaled.saves.global.stall.value == 5);
  CHECK(scaled.at_scale().restart.in_job.start.value == doctest::Approx(13));  // once is enough
  const Scenario dear = scaled.with_costs(2);
  CHECK(dear.restart.in_job.start.value == doctest::Approx(26));
  CHECK(dear.faults[0].detect.value == 6);
  CHECK(dear.saves.global.stall.value == 10);
  CHECK(dear.cluster.repair.value == scaled.cluster.repair.value);
}

TEST_CASE("what no measurement covers is assumed") {
  const auto scenario = parse_scenario(small_scenario, "s.toml");
  REQUIRE(scenario.ok());
  CHECK(scenario->assumed() ==
        std::vector<std::string>{"saves.global.stall", "fault.crash.detect", "scaling.communicators"});
}

}  // namespace longhaul
