// Hosts under suspicion are left out as long as the job has room without them, and a job that waits for what it left
// out itself gets it back.
#include "orchestrator/decide/exclusions.h"

#include <algorithm>

#include "base/digest/philox.h"
#include "tests/support/seed.h"
#include "tests/unit/orchestrator/controller/cluster_rig.h"

namespace longhaul {
namespace {

// "n1 n2 n3! n4": n3 does not work. All of them in the partitions `main` and, by default, "".
std::vector<HostSeen> hosts_named(const std::string& text, const std::string& partition = "main") {
  std::vector<HostSeen> hosts;
  for (std::string name : split(text, ' ')) {
    const bool usable = !ends_with(name, "!");
    if (!usable) name.pop_back();
    hosts.push_back({name, usable, {partition, ""}, {}});
  }
  return hosts;
}

NodeSuspicion suspicion(const std::string& node, std::int64_t since_ms, int faults = 1) {
  NodeSuspicion one;
  one.node = node, one.since_ms = since_ms, one.faults = faults;
  one.until_ms = since_ms + 86'400'000;
  return one;
}

std::string chosen_text(const Exclusions& chosen) {
  return join(chosen.hosts, " ") + " | " + join(chosen.used_all_the_same, " ");
}

HostNeed nodes_of(int nodes) {
  HostNeed need;
  need.nodes = nodes;
  return need;
}

}  // namespace

TEST_CASE("suspects are left out while there is room, and the least serious is used first where there is none") {
  const auto four = hosts_named("n1 n2 n3 n4");
  const std::vector<NodeSuspicion> suspects = {suspicion("n1", 300, 2), suspicion("n2", 200), suspicion("n3", 100)};
  struct Case {
    int nodes;
    const char* chosen;
  };
  const Case cases[] = {
      {1, "n1 n2 n3 | "}, {2, "n1 n2 | n3"}, {3, "n1 | n3 n2"}, {4, " | n3 n2 n1"}, {5, " | n3 n2 n1"}};
  for (const Case& c : cases) {
    CAPTURE(c.nodes);
    CHECK(chosen_text(choose_exclusions(suspects, nodes_of(c.nodes), four)) == c.chosen);
  }
  CHECK(choose_exclusions(suspects, nodes_of(1), four).why.empty());
  CHECK(choose_exclusions(suspects, nodes_of(3), four).why == "the job needs 3 of 4 hosts");
  // Nothing is known of the hosts, or of the job: all are left out.
  CHECK(chosen_text(choose_exclusions(suspects, nodes_of(4), {})) == "n1 n2 n3 | ");
  CHECK(chosen_text(choose_exclusions(suspects, nodes_of(0), four)) == "n1 n2 n3 | ");
}

TEST_CASE("hosts that do not work are no room, and are left out unless the job can start nowhere else") {
  // The lost host is down; two suspects, and a job of three: the doubtful one works at once, the lost one need not
  // come.
  const std::vector<NodeSuspicion> suspects = {suspicion("n2", 100), suspicion("n3", 200, 2)};
  const Exclusions now = choose_exclusions(suspects, nodes_of(3), hosts_named("n1 n2! n3 n4"));
  CHECK(chosen_text(now) == "n2 | n3");
  CHECK(now.why == "the job needs 3 of 4 hosts, of which 3 work");
  // A job of all hosts waits for the lost one, which it therefore must not exclude; Slurm would refuse it.
  CHECK(chosen_text(choose_exclusions({suspicion("n2", 100)}, nodes_of(4), hosts_named("n1 n2! n3 n4"))) == " | n2");
  // A host of no interest to the job stays out of it.
  CHECK(chosen_text(choose_exclusions({suspicion("x9", 1), suspicion("n2", 2)}, nodes_of(4),
                                      hosts_named("n1 n2 n3 n4"))) == "x9 | n2");
}

TEST_CASE("room is what the partition, the features and the user leave") {
  std::vector<HostSeen> hosts = hosts_named("n1 n2 n3 n4");
  hosts[3].partitions = {"debug"};
  hosts[0].features = {"a100", "rack1"}, hosts[1].features = {"a100"}, hosts[2].features = {"h100"};
  const std::vector<NodeSuspicion> suspects = {suspicion("n1", 100)};
  HostNeed need = nodes_of(2);
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == "n1 | ");
  need.partition = "main";
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == "n1 | ");
  need.exclude = "n[3-4]";
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == " | n1");
  need.exclude.clear(), need.constraint = "a100";
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == " | n1");
  need.constraint = "a100&rack1", need.nodes = 1;
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == " | n1");
  need.constraint = "[a100|h100]", need.nodes = 2;  // Slurm's to judge
  CHECK(chosen_text(choose_exclusions(suspects, need, hosts)) == "n1 | ");
  need = nodes_of(1), need.partition = "debug,other";
  CHECK(chosen_text(choose_exclusions({suspicion("n4", 1)}, need, hosts)) == " | n4");
}

TEST_CASE("whatever is suspected, a job that fits without exclusions fits with those that are chosen") {
  const std::uint64_t seed = testing::seed(20261122);
  CAPTURE(seed);
  PhiloxSequence random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<HostSeen> hosts;
    std::vector<NodeSuspicion> suspects;
    const int count = 1 + static_cast<int>(random.next_below(12));
    for (int i = 0; i < count; ++i) {
      hosts.push_back({format("n{}", i), random.next_below(4) != 0, {""}, {}});
      if (random.next_below(2) == 0)
        suspects.push_back(suspicion(hosts.back().name, static_cast<std::int64_t>(random.next_below(50)),
                                     1 + static_cast<int>(random.next_below(3))));
    }
    const int nodes = 1 + static_cast<int>(random.next_below(static_cast<std::uint64_t>(count)));
    const Exclusions chosen = choose_exclusions(suspects, nodes_of(nodes), hosts);
    int working = 0, left = 0, anyhow = 0;
    for (const HostSeen& host : hosts) {
      const bool out = std::count(chosen.hosts.begin(), chosen.hosts.end(), host.name) > 0;
      working += host.usable ? 1 : 0;
      left += host.usable && !out ? 1 : 0;
      anyhow += out ? 0 : 1;
    }
    CHECK(left >= std::min(nodes, working));
    CHECK(anyhow >= nodes);
    CHECK(chosen.hosts.size() + chosen.used_all_the_same.size() == suspects.size());
    // Nobody is used without need.
    if (working - static_cast<int>(suspects.size()) >= nodes) CHECK(chosen.used_all_the_same.empty());
  }
}

TEST_CASE(
    "a job that waits gets back what it excludes: where no room is left after a minute, by its reason after more") {
  const std::vector<NodeSuspicion> suspects = {suspicion("n2", 100), suspicion("n3", 200, 2)};
  WaitingJob job{{"n2", "n3"}, "Resources", 59'000};
  const auto text = [&](int nodes, const std::string& hosts) {
    const auto lifted = lift_exclusions(job, suspects, nodes_of(nodes), hosts_named(hosts));
    return lifted ? chosen_text(*lifted) : std::string("waits");
  };
  CHECK(text(3, "n1 n2 n3 n4") == "waits");
  job.waited_ms = 60'000;
  CHECK(text(3, "n1 n2 n3 n4") == "n3 | n2");
  CHECK(text(2, "n1 n2 n3 n4") == "waits");  // for others' jobs
  CHECK(text(2, "n1 n2 n3 n4!") == "n3 | n2");
  job.reason = "ReqNodeNotAvail,_UnavailableNodes:n[2-3]";
  CHECK(text(2, "n1 n2 n3 n4") == "waits");
  job.waited_ms = reason_patience_ms;
  CHECK(text(2, "n1 n2 n3 n4") == "n3 | n2");
  CHECK(lift_exclusions({{"n7"}, "BadConstraints", reason_patience_ms}, {}, nodes_of(0), {})->used_all_the_same[0] ==
        "n7");
  for (const char* other : {"Resources", "Priority", "Dependency", "QOSMaxJobsPerUserLimit", "JobHeldUser", ""}) {
    CAPTURE(other);
    job.reason = other;
    CHECK(text(2, "n1 n2 n3 n4") == "waits");
  }
  CHECK(!lift_exclusions({{}, "BadConstraints", reason_patience_ms}, suspects, nodes_of(9), hosts_named("n1")));
}

TEST_CASE("the next job after a lost host does not wait for hosts that it excludes itself") {
  ClusterRig rig;
  rig.stage("p").common.infrastructure_retries = 9;
  rig.rules.stages[0].resumable = true;
  rig.rules.stages[0].hosts.nodes = 3;
  rig.seen.hosts = hosts_named("n1 n2 n3 n4");
  rig.round();
  rig.lose_node("p", "n2");
  CHECK(rig.round() == "retry p#1, submit p#2");
  CHECK(join(rig.of("p").newest()->exclude, " ") == "n2");
  CHECK(!rig.fact(FactKind::submit).fields.find("used_all_the_same"));
  rig.seen.hosts = hosts_named("n1 n2! n3 n4");
  rig.lose_node("p", "n3");
  CHECK(rig.round() == "retry p#2, submit p#3");
  CHECK(join(rig.of("p").newest()->exclude, " ") == "n2");
  CHECK(rig.fact(FactKind::submit).text("why") == "the job needs 3 of 4 hosts, of which 3 work");
  // It waits, and a further host fails: what is excluded may be used when that is known for a minute.
  rig.job("p").state = JobState::queued;
  rig.seen.hosts = hosts_named("n1! n2 n3 n4");
  CHECK(rig.round() == "lift_exclusions p#3");
  CHECK(rig.of("p").newest()->exclude.empty());
  CHECK(pending_acts(rig.ledger).lift.size() == 1);
  CHECK(rig.round() == "");  // once is enough
  rig.write_fact(FactKind::exclusions_lifted, "p", 3);
  CHECK(pending_acts(rig.ledger).lift.empty());
  CHECK(rig.round() == "");
}

TEST_CASE("a job that is refused for what it leaves out is asked for with it, and not on the program's account") {
  ClusterRig rig;
  rig.stage("p").common.retries = 0;
  rig.rules.stages[0].resumable = true;
  rig.round();
  rig.lose_node("p", "n2");
  CHECK(rig.round(false) == "retry p#1, submit p#2");
  rig.write_fact(FactKind::refused, "p", 2, "cause", "Requested node configuration is not available");
  CHECK(rig.round() == "retry p#2, submit p#3");
  CHECK(rig.of("p").newest()->exclude.empty());
  CHECK(rig.fact(FactKind::submit).text("why") == "the scheduler refused a job without n2");
}

}  // namespace longhaul
