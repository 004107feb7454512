// The orders that agents get for a launch, and since when hosts are missing that do not come: without sockets.
#include "worker/lead/agents/launch_orders.h"

#include <doctest/doctest.h>

#include "worker/lead/agents/lead_in_waiting.h"

using namespace longhaul;

namespace {

constexpr std::int64_t ms = 1'000'000;

// Two hosts with ranks and a spare, in launch 3.
LaunchOrders orders_of_three_hosts(std::int64_t end_by_ns = 0) {
  LaunchOrders orders;
  orders.begin({"n1", "n2", "spare"}, 3, "/pages", {{"n1", {0, 1}}, {"n2", {2, 3}}}, 5'000, end_by_ns, "/store");
  return orders;
}

std::vector<std::string> hosts_of(const HostOrders& orders) {
  std::vector<std::string> hosts;
  for (const auto& [host, order] : orders) hosts.push_back(host);
  return hosts;
}

}  // namespace

TEST_CASE("launch orders: an agent that comes is sent what to watch, and a restart that was ordered before it came") {
  LaunchOrders orders = orders_of_three_hosts();
  const std::vector<AgentOrder> first = orders.for_newcomer("n2", 0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].kind == AgentOrder::Kind::watch);
  CHECK(first[0].launch == 3);
  CHECK(first[0].ranks == std::vector<int>{2, 3});
  CHECK(first[0].left_ms == 0);
  CHECK(hosts_of(orders.restart(7)) == std::vector<std::string>{"n1", "n2"});
  const std::vector<AgentOrder> later = orders.for_newcomer("n1", 0);
  REQUIRE(later.size() == 2);
  CHECK(later[1].kind == AgentOrder::Kind::restart);
  CHECK(later[1].epoch == 7);
  CHECK(later[1].ranks == std::vector<int>{0, 1});
  CHECK(orders.for_newcomer("spare", 0).size() == 1);  // it has no ranks to restart
  CHECK(orders.for_newcomer("stranger", 0).empty());
  orders.begin({"n1"}, 4, "/pages", {{"n1", {0}}}, 0, 0, "");
  CHECK(orders.for_newcomer("n1", 0).size() == 1);  // the next launch knows nothing of it
}

TEST_CASE("launch orders: the time that is left is counted when an order is made, and never said as none") {
  LaunchOrders orders = orders_of_three_hosts(10'000 * ms);
  CHECK(orders.for_newcomer("n1", 4'000 * ms).front().left_ms == 6'000);
  CHECK(orders.for_newcomer("n1", 11'000 * ms).front().left_ms == 1);  // 0 would mean: not known
  const HostOrders sooner = orders.must_end_by(5'000 * ms, 4'000 * ms);
  CHECK(hosts_of(sooner) == std::vector<std::string>{"n1", "n2", "spare"});
  CHECK(sooner.front().second.left_ms == 1'000);
  CHECK(orders.for_newcomer("n1", 4'500 * ms).front().left_ms == 500);
}

TEST_CASE("launch orders: every order names the launch, so that one that comes late reaches no later ranks") {
  const LaunchOrders orders = orders_of_three_hosts();
  CHECK(orders.signal("n1", {1}, 9).launch == 3);
  CHECK(orders.signal("stranger", {1}, 9).launch == 0);
  CHECK(hosts_of(orders.stacks("/stacks")) == std::vector<std::string>{"n1", "n2"});
  CHECK(orders.stacks("/stacks").front().second.ranks == std::vector<int>{0, 1});
  const auto page = orders.page("n2", 2, {"id", "lr", 0.5});
  REQUIRE(page.has_value());
  CHECK(page->launch == 3);
  CHECK(page->what == "lr");
  CHECK_FALSE(orders.page("stranger", 2, {}).has_value());
}

TEST_CASE("lead in waiting: a host that has not come is missing since the lead waits, and sooner only with a reason") {
  const std::int64_t waits = 100'000 * ms;
  const std::int64_t lost = 90'000 * ms;
  CHECK(missing_since_ns({}, waits, lost) == waits);
  // The scheduler has taken it out of the job.
  CHECK(missing_since_ns({.gone = true}, waits, lost) == lost);
  CHECK(missing_since_ns({.gone = true}, waits, 0) == waits);
  // Its kernel is silent: but an agent there may have needed 0.4 s to come here.
  CHECK(missing_since_ns({.kernel_silent = true}, waits, lost) == waits - 400 * ms);
  CHECK(missing_since_ns({.kernel_silent = true}, waits, waits - 100 * ms) == waits - 100 * ms);
  CHECK(missing_since_ns({.kernel_silent = true}, waits, waits + 100 * ms) == waits);
}
