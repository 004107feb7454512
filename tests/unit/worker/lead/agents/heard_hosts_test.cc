// Whose voice counts for a lead: that of agents which were heard of lately.
#include "worker/lead/agents/heard_hosts.h"

#include <doctest/doctest.h>

#include "worker/lead/failover/scheduler_vote.h"

using namespace longhaul;

TEST_CASE("heard hosts: after a cut all connections stand, and nobody is heard of: no majority") {
  std::map<std::string, AgentState> agents;
  const std::int64_t second_ns = 1'000'000'000, now_ns = 100 * second_ns;
  for (const char* host : {"n1", "n2", "n3", "n4"}) {
    AgentState& agent = agents[host];
    agent.connected = true, agent.heard_ns = now_ns - second_ns / 2;
  }
  const std::vector<std::string> hosts = {"n1", "n2", "n3", "n4"};
  CHECK(is_majority(hosts, heard_hosts(agents, now_ns), {}));
  CHECK(is_majority(hosts, heard_hosts(agents, now_ns + second_ns), {}));
  CHECK(!is_majority(hosts, heard_hosts(agents, now_ns + 2 * second_ns), {}));
  agents["n1"].heard_ns = now_ns + 2 * second_ns;  // its own
  CHECK(heard_hosts(agents, now_ns + 2 * second_ns) == std::set<std::string>{"n1"});
  agents["n2"].heard_ns = 0;  // connected, and has said nothing yet
  agents["n3"].connected = false;
  CHECK(heard_hosts(agents, now_ns).count("n2") == 0);
  CHECK(heard_hosts(agents, now_ns).count("n3") == 0);
}

TEST_CASE(
    "heard hosts: a first node that is left makes steps for as long as it is heard of, and one that is gone none") {
  const std::int64_t second_ns = 1'000'000'000, now_ns = 100 * second_ns;
  AgentState agent;
  agent.connected = true, agent.heard_ns = now_ns - second_ns / 2;
  CHECK(still_makes_steps(&agent, false, false, now_ns));
  CHECK(still_makes_steps(&agent, false, true, now_ns));  // slow, or with a bad GPU
  const std::int64_t later_ns = now_ns + 5 * second_ns;
  CHECK(still_makes_steps(&agent, false, false, later_ns));       // silent, and nobody names it
  CHECK_FALSE(still_makes_steps(&agent, false, true, later_ns));  // silent, and named: frozen, or cut off
  agent.connected = false;
  CHECK_FALSE(still_makes_steps(&agent, false, false, now_ns));
  CHECK(still_makes_steps(&agent, true, false, now_ns));  // its agent alone has died
  CHECK(still_makes_steps(nullptr, false, false, now_ns));
  CHECK_FALSE(still_makes_steps(nullptr, false, true, now_ns));
}
