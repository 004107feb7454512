// Which nodes are set aside before the first launch.
#include "worker/lead/placement/preflight.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

using Names = std::vector<std::string>;

Names working_without(HostPool hosts, const Names& aside) {
  for (const std::string& host : aside) hosts.leave(host);
  return hosts.working();
}

}  // namespace

TEST_CASE("an unfit node gives its place to a spare, never to an unfit one") {
  const HostPool hosts({"n1", "n2", "n3", "n4", "n5"}, 3);
  const Names aside = nodes_to_set_aside(hosts, {"n2", "n4"}, {});
  CHECK(aside == Names{"n4", "n2"});
  CHECK(working_without(hosts, aside) == Names{"n1", "n3", "n5"});
}

TEST_CASE("where no spare is left the job makes do with what it has") {
  const HostPool hosts({"n1", "n2", "n3"}, 2);
  CHECK(nodes_to_set_aside(hosts, {"n1", "n2"}, {}) == Names{"n1"});
  CHECK(nodes_to_set_aside(HostPool({"n1", "n2"}, 2), {"n1"}, {"n2"}).empty());
  CHECK(nodes_to_set_aside(hosts, {}, {}).empty());
}

TEST_CASE("a slow node gives its place to one that is not, after the unfit") {
  const HostPool hosts({"n1", "n2", "n3", "n4"}, 3);
  CHECK(nodes_to_set_aside(hosts, {"n3"}, {"n1"}) == Names{"n3"});
  CHECK(nodes_to_set_aside(hosts, {}, {"n1"}) == Names{"n1"});
  CHECK(nodes_to_set_aside(hosts, {}, {"n1", "n4"}).empty());
  CHECK(nodes_to_set_aside(hosts, {}, {"n4"}).empty());
}

TEST_CASE("the first launch waits only where something is measured, checked, or could be set aside") {
  ResiliencySettings settings;
  CHECK(!preflight_waits(settings));
  settings.spares = 1;
  CHECK(preflight_waits(settings));
  settings.health = "watch";
  CHECK(!preflight_waits(settings));
  settings.health_command = "/site/check";
  CHECK(preflight_waits(settings));
  settings.health_command.clear(), settings.preflight_floor = 0.7;
  CHECK(preflight_waits(settings));
  settings.health = "off";
  CHECK(!preflight_waits(settings));
}

}  // namespace longhaul
