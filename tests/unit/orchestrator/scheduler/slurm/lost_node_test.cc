#include "orchestrator/scheduler/slurm/lost_node.h"

#include <doctest/doctest.h>

#include "orchestrator/scheduler/slurm/slurm_hosts.h"

namespace longhaul {

TEST_CASE("the one node of a job that Slurm lost; several at once point at none of them") {
  const auto lost = [](const std::string& nodes, const std::string& states) {
    std::vector<SlurmNode> all;
    for (int i = 1; i <= 4; ++i) {
      SlurmNode node;
      node.name = "n" + std::to_string(i);
      node.state = "ALLOCATED";
      if (states[static_cast<std::size_t>(i - 1)] == 'd') node.state = "DOWN+NOT_RESPONDING";
      if (states[static_cast<std::size_t>(i - 1)] == 'f') node.state = "MIXED+FAIL";
      if (states[static_cast<std::size_t>(i - 1)] == 'n') node.state = "ALLOCATED+NOT_RESPONDING";
      if (states[static_cast<std::size_t>(i - 1)] == 'e') node.state = "ERROR";
      if (states[static_cast<std::size_t>(i - 1)] == 'r') node.state = "ALLOCATED+DRAIN";
      all.push_back(node);
    }
    return lost_node(nodes, all);
  };
  CHECK(lost("n[1-4]", "..d.") == "n3");
  CHECK(lost("n[1-4]", ".f..") == "n2");
  CHECK(lost("n[1-4]", ".n..") == "n2");  // Slurm has not set it down yet, though it does not respond
  CHECK(lost("n[1-4]", "...e") == "n4");
  CHECK(lost("n[1-4]", "n..d").empty());
  CHECK(lost("n[1-4]", "r...").empty());  // drained: its jobs go on
  CHECK(lost("n[1-4]", ".dd.").empty());
  CHECK(lost("n[1-2]", "..d.").empty());  // another job's
  CHECK(lost("n[1,3]", ".dd.") == "n3");
  CHECK(lost("", "d...").empty());
  CHECK(lost("n[1-", "d...").empty());
}

TEST_CASE(
    "hosts for jobs are those that Slurm gives away, now or later; jobs that name no partition go to the default one") {
  std::vector<SlurmNode> nodes;
  const char* const states[] = {
      "IDLE",        "ALLOCATED", "MIXED+MAINTENANCE", "IDLE+POWERED_DOWN", "DOWN+NOT_RESPONDING",
      "MIXED+DRAIN", "DRAINED",   "IDLE+FAIL",         "IDLE+INVALID_REG",  "ALLOCATED+NOT_RESPONDING"};
  for (const char* state : states) {
    SlurmNode node;
    node.name = "n" + std::to_string(nodes.size());
    node.state = state;
    node.partitions = nodes.empty() ? "debug" : "main,debug";
    node.features = nodes.empty() ? "" : "a100,rack1";
    nodes.push_back(node);
  }
  SlurmPartition main, debug;
  main.name = "main", main.is_default = true, debug.name = "debug";
  const std::vector<HostSeen> hosts = hosts_of(nodes, {main, debug});
  REQUIRE(hosts.size() == std::size(states));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    CAPTURE(states[i]);
    CHECK(hosts[i].usable == (i < 4));
  }
  CHECK(hosts[0].partitions == std::vector<std::string>{"debug"});
  CHECK(hosts[0].features.empty());
  CHECK(hosts[1].partitions == std::vector<std::string>{"main", "debug", ""});
  CHECK(hosts[1].features == std::vector<std::string>{"a100", "rack1"});
}

}  // namespace longhaul
