// Which nodes are avoided, for how long, and on what evidence.
#include <doctest/doctest.h>

#include <ctime>

#include "base/text/text.h"
#include "resiliency/retry_policy.h"

namespace longhaul {
namespace {

constexpr std::int64_t suspicion_hour = 3'600'000;

std::string suspects_at(const std::vector<NodeEvidence>& evidence, std::int64_t now_ms) {
  std::vector<std::string> names;
  for (const NodeSuspicion& suspect : suspect_nodes(evidence, now_ms, suspicion_hour)) names.push_back(suspect.node);
  return join(names, " ");
}

NodeEvidence node_failed(const std::string& node, std::int64_t at_ms) {
  return {node, FaultClass::node_fail, at_ms, "node_fail of p", ""};
}
NodeEvidence crashed(const std::string& node, std::int64_t at_ms, const std::string& cause = "") {
  return {node, FaultClass::crash, at_ms, "crash of p", cause};
}

}  // namespace

TEST_CASE("a suspicion begins with the fault and expires") {
  const std::vector<NodeEvidence> evidence = {node_failed("n1", 1000), node_failed("n2", 5000)};
  CHECK(suspects_at(evidence, 1000) == "n1 n2");
  CHECK(suspects_at(evidence, 1000 + suspicion_hour - 1) == "n1 n2");
  CHECK(suspects_at(evidence, 1000 + suspicion_hour) == "n2");
  CHECK(suspects_at(evidence, 5000 + suspicion_hour) == "");
  CHECK(suspects_at({}, 0) == "");
  const auto suspects = suspect_nodes(evidence, 1000, suspicion_hour);
  REQUIRE(suspects.size() == 2);
  CHECK(suspects[0].since_ms == 1000);
  CHECK(suspects[0].until_ms == 1000 + suspicion_hour);
  CHECK(suspects[0].evidence == "node_fail of p");
}

TEST_CASE("every further fault on the same node doubles the time, counted from the newest, up to eight times") {
  std::vector<NodeEvidence> evidence;
  const std::int64_t hours[] = {1, 2, 4, 8, 8, 8};
  for (int fault = 0; fault < 6; ++fault) {
    CAPTURE(fault);
    const std::int64_t at_ms = 1000 + fault * suspicion_hour / 2;
    evidence.push_back(node_failed("n1", at_ms));
    evidence.push_back(node_failed("another", at_ms - 100 * suspicion_hour));
    const std::int64_t until_ms = at_ms + hours[fault] * suspicion_hour;
    CHECK(suspects_at(evidence, until_ms - 1) == "n1");
    CHECK(suspects_at(evidence, until_ms) == "");
  }
}

TEST_CASE("evidence that comes out of order counts from the newest fault all the same") {
  const std::vector<NodeEvidence> evidence = {node_failed("n1", 9000), node_failed("n1", 1000)};
  CHECK(suspects_at(evidence, 9000 + 2 * suspicion_hour - 1) == "n1");
  CHECK(suspects_at(evidence, 9000 + 2 * suspicion_hour) == "");
  // Of two at one time the one that came last is reported.
  std::vector<NodeEvidence> at_once = {node_failed("n1", 1000), node_failed("n1", 1000)};
  at_once[1].what = "node_fail of q";
  const auto suspects = suspect_nodes(at_once, 1000, suspicion_hour);
  REQUIRE(suspects.size() == 1);
  CHECK(suspects[0].evidence == "node_fail of q");
}

TEST_CASE("only what is surely the machine's fault accuses a node at once, and only a node that is known") {
  using F = FaultClass;
  for (const F fault : {F::node_fail, F::boot_fail, F::launch_failed, F::out_of_memory}) {
    CAPTURE(to_string(fault));
    CHECK(suspects_at({{"n1", fault, 1000, "w", ""}}, 1000) == "n1");
    CHECK(suspects_at({{"", fault, 1000, "w", ""}}, 1000) == "");
  }
  for (const F fault :
       {F::program, F::crash, F::killed, F::bad_input, F::preempted, F::wall_time, F::cancelled_there, F::lost}) {
    CAPTURE(to_string(fault));
    CHECK(suspects_at({{"n1", fault, 1000, "w", ""}}, 1000) == "");
  }
}

TEST_CASE("what may be the program's fault accuses its host at the second time there") {
  const NodeEvidence first = crashed("n1", 1000), second = crashed("n1", 2000);
  CHECK(suspects_at({first}, 1000) == "");
  CHECK(suspects_at({first, crashed("n2", 1500)}, 1500) == "");
  CHECK(suspects_at({first, second}, 2000) == "n1");
  CHECK(suspects_at({second, first}, 2000 + suspicion_hour - 1) == "n1");
  CHECK(suspects_at({first, second}, 2000 + suspicion_hour) == "");
  // A sure fault before it, and it is the second, too: the time doubles.
  CHECK(suspects_at({node_failed("n1", 1000), second}, 2000 + 2 * suspicion_hour - 1) == "n1");
  CHECK(suspects_at({node_failed("n1", 1000), second}, 2000 + 2 * suspicion_hour) == "");
  // Of three in a row each follows the one before, however long ago the first was.
  const std::int64_t apart = 5 * suspicion_hour;
  CHECK(suspects_at({first, crashed("n1", 1000 + apart), crashed("n1", 1000 + 2 * apart)},
                    1000 + 2 * apart + 2 * suspicion_hour - 1) == "n1");
  CHECK(suspects_at({first, crashed("n1", 1000 + 9 * suspicion_hour), crashed("n1", 1000 + 18 * suspicion_hour)},
                    1000 + 18 * suspicion_hour) == "");
  // Two in half a year are two accidents.
  const std::int64_t long_after = 1000 + 8 * suspicion_hour + 1;
  CHECK(suspects_at({first, crashed("n1", long_after)}, long_after) == "");
  CHECK(suspects_at({first, crashed("n1", long_after - 1)}, long_after) == "n1");
}

TEST_CASE("a cause that other hosts met as often follows the program and accuses nobody") {
  const NodeEvidence here = crashed("n1", 1000, "rank 1: bad pointer at step 7"),
                     again = crashed("n1", 2000, "rank 5: bad pointer at step 9"),
                     there = crashed("n2", 3000, "rank 2: bad pointer at step 8"),
                     there_again = crashed("n2", 4000, "rank 2: bad pointer at step 8");
  CHECK(suspects_at({here, again}, 5000) == "n1");
  CHECK(suspects_at({here, again, there}, 5000) == "n1");
  CHECK(suspects_at({here, again, there, there_again}, 5000) == "");
  NodeEvidence other_cause = there_again;
  other_cause.cause = "another";
  CHECK(suspects_at({here, again, there, other_cause}, 5000) == "n1");  // n2 has one of its own
  // What is surely the host's is so whatever other hosts met.
  CHECK(suspects_at({node_failed("n1", 1000), node_failed("n2", 1000)}, 1000) == "n1 n2");
}

TEST_CASE(
    "suspects: faults without a known cause, or of other classes, are not one cause; sure ones follow no program") {
  std::vector<NodeEvidence> unexplained;
  for (const char* node : {"n1", "n2"})
    for (const int at_ms : {1000, 2000}) unexplained.push_back(crashed(node, at_ms));
  CHECK(suspects_at(unexplained, 3000) == "n1 n2");
  const std::string cause = "it ended in section backward";
  std::vector<NodeEvidence> classes = {crashed("n1", 1000, cause), crashed("n1", 2000, cause)};
  for (const int at_ms : {1500, 2500}) classes.push_back({"n2", FaultClass::killed, at_ms, "killed of p", cause});
  CHECK(suspects_at(classes, 3000) == "n1 n2");
  std::vector<NodeEvidence> sure;
  for (const char* node : {"n1", "n2"}) sure.push_back({node, FaultClass::node_fail, 1000, "node_fail of p", "lost"});
  CHECK(suspects_at(sure, 1000) == "n1 n2");
}

TEST_CASE("suspects: a job's end speaks of its own node, and of each node that its lead had left, once") {
  std::vector<NodeEvidence> evidence;
  add_evidence({"n1", FaultClass::node_fail, 7, "p, attempt 2", "lost", {"n1", "n2"}}, evidence);
  REQUIRE(evidence.size() == 2);
  CHECK(evidence[0].node == "n1");
  CHECK(evidence[0].fault == FaultClass::node_fail);
  CHECK(evidence[0].at_ms == 7);
  CHECK(evidence[0].what == "node_fail of p, attempt 2");
  CHECK(evidence[0].cause == "lost");
  CHECK(evidence[1].node == "n2");
  CHECK(evidence[1].fault == FaultClass::host_unreachable);
  CHECK(evidence[1].at_ms == 7);
  evidence.clear();
  add_evidence({"", FaultClass::crash, 7, "p", "c"}, evidence);
  CHECK(evidence.empty());
}

TEST_CASE("a host that fails again within its suspicion's memory is a lemon") {
  const auto lemons = [](const std::vector<NodeEvidence>& evidence, std::int64_t now_ms) {
    std::string names;
    for (const NodeSuspicion& suspect : suspect_nodes(evidence, now_ms, suspicion_hour))
      if (suspect.lemon()) names += suspect.node;
    return names;
  };
  CHECK(lemons({node_failed("n1", 1000)}, 1000) == "");
  CHECK(lemons({node_failed("n1", 1000), node_failed("n1", 2000)}, 2000) == "n1");
  CHECK(lemons({crashed("n1", 1000), crashed("n1", 2000)}, 2000) == "n1");
  CHECK(lemons({node_failed("n1", 1000), node_failed("n2", 2000)}, 2000) == "");
  const std::int64_t long_after = 1000 + 9 * suspicion_hour;
  CHECK(lemons({node_failed("n1", 1000), node_failed("n1", long_after)}, long_after) == "");
  CHECK(suspects_at({node_failed("n1", 1000), node_failed("n1", long_after)}, long_after) == "n1");
  // The memory, eight hours here, goes on from each fault: the third is within it although the first is not.
  std::vector<NodeEvidence> chain;
  for (const int hours : {0, 7, 14}) chain.push_back(node_failed("n1", 1000 + hours * suspicion_hour));
  CHECK(lemons(chain, chain.back().at_ms) == "n1");
  const auto suspects = suspect_nodes(chain, chain.back().at_ms, suspicion_hour);
  REQUIRE(suspects.size() == 1);
  CHECK(suspects[0].faults == 3);
}

TEST_CASE("hosts of a large job that was lost again and again are judged in a moment, and not in the square of them") {
  constexpr int hosts = 40'000;
  std::vector<NodeEvidence> evidence;
  for (int host = 0; host < hosts; ++host) evidence.push_back(node_failed(format("n{:05}", host), 1000 + host));
  evidence.push_back(node_failed("n00007", 90'000));
  const std::clock_t begun = std::clock();
  const auto suspects = suspect_nodes(evidence, 100'000, suspicion_hour);
  CHECK(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC <
        2);  // 0.03 s; each beside all others takes many times that
  REQUIRE(suspects.size() == hosts);
  CHECK(suspects[7].node == "n00007");
  CHECK(suspects[7].lemon());
  CHECK(!suspects[8].lemon());
}

}  // namespace longhaul
