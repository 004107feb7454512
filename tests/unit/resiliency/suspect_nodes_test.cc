// Which nodes are avoided, for how long, and on what evidence.
#include <doctest/doctest.h>

#include "base/text.h"
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
  return {node, FaultClass::node_fail, at_ms, "node_fail of p"};
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
}

TEST_CASE("only what may be the machine's fault accuses a node, and only a node that is known") {
  using F = FaultClass;
  for (const F fault : {F::node_fail, F::boot_fail, F::launch_failed, F::out_of_memory}) {
    CAPTURE(to_string(fault));
    CHECK(suspects_at({{"n1", fault, 1000, "w"}}, 1000) == "n1");
    CHECK(suspects_at({{"", fault, 1000, "w"}}, 1000) == "");
  }
  for (const F fault :
       {F::program, F::crash, F::killed, F::bad_input, F::preempted, F::wall_time, F::cancelled_there, F::lost}) {
    CAPTURE(to_string(fault));
    CHECK(suspects_at({{"n1", fault, 1000, "w"}}, 1000) == "");
  }
}

}  // namespace longhaul
