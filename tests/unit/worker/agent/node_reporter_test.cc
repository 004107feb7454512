#include "worker/agent/node_reporter.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

struct ReportingNode {
  ManualClock clock;
  HealthReport health;
  NodeReporter reporter{"n1", clock};
  std::vector<RankReport> ranks = std::vector<RankReport>(2);
  std::vector<std::string> done;
  std::optional<NodeReport> report() { return reporter.report({4, ranks, done, 7100, health}); }
};

TEST_CASE("what changed is reported at once, and that nothing did every half second") {
  ReportingNode node;
  node.clock.advance_ms(1'000);
  const auto first = node.report();
  REQUIRE(first);
  CHECK(first->host == "n1");
  CHECK(first->launch == 4);
  CHECK_FALSE(node.report());
  node.ranks[1].beat.step = 3;
  CHECK(node.report());
  CHECK_FALSE(node.report());
  node.done = {"order-1"};
  CHECK(node.report());
  node.health.looks = 1;
  CHECK(node.report());
  node.clock.advance_ms(499);
  CHECK_FALSE(node.report());
  node.clock.advance_ms(1);
  CHECK(node.report());
}

TEST_CASE("a lead that has just been found gets all, and with every report the faults that could not be injected") {
  ReportingNode node;
  node.clock.advance_ms(1'000);
  CHECK(node.reporter.hurries());
  CHECK(node.report());
  CHECK_FALSE(node.reporter.hurries());
  node.reporter.not_injected("f1", "there is no GPU");
  CHECK(node.reporter.hurries());
  auto report = node.report();
  REQUIRE(report);
  REQUIRE(report->fault_problems.size() == 1);
  node.reporter.hurry();
  report = node.report();
  REQUIRE(report);
  CHECK(report->fault_problems.size() == 1);
}

}  // namespace
}  // namespace longhaul
