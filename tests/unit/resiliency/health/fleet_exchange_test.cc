// Who exchanges with whom, and which host a slow exchange speaks against.
#include "resiliency/health/fleet_exchange.h"

#include <doctest/doctest.h>

#include <set>

#include "resiliency/health/host_figures.h"

using namespace longhaul;

namespace {

std::vector<std::string> hosts_of_fleet(int count) {
  std::vector<std::string> hosts;
  for (int i = 1; i <= count; ++i) hosts.push_back("n" + std::to_string(i));
  return hosts;
}

// Every pair as fast as the slower of sender's and receiver's side; others at 1000.
std::map<std::string, double> figures_with(int hosts, const std::map<std::string, double>& sends,
                                           const std::map<std::string, double>& receives) {
  const auto of = [](const std::map<std::string, double>& rates, const std::string& host) {
    const auto found = rates.find(host);
    return found == rates.end() ? 1000.0 : found->second;
  };
  std::vector<HostTransfer> transfers;
  for (const auto& [from, partners] : exchange_partners(hosts_of_fleet(hosts)))
    for (const std::string& to : partners) transfers.push_back({from, to, std::min(of(sends, from), of(receives, to))});
  return network_figures(transfers);
}

}  // namespace

TEST_CASE("exchange: every host sends to as many others as send to it, and never to itself") {
  for (int count = 2; count <= 40; ++count) {
    std::map<std::string, std::set<std::string>> to, from;
    for (const auto& [host, partners] : exchange_partners(hosts_of_fleet(count)))
      for (const std::string& partner : partners) {
        CHECK(partner != host);
        CHECK(to[host].insert(partner).second);
        from[partner].insert(host);
      }
    CHECK(static_cast<int>(to.size()) == count);
    for (const auto& [host, partners] : to) {
      CHECK(from[host].size() == partners.size());
      if (count >= 3) CHECK(partners.size() >= 2);
    }
  }
  CHECK(exchange_partners({"alone"}).empty());
}

TEST_CASE("exchange: a host that is slow in one direction or in both is the one with the low figure") {
  for (const int count : {3, 4, 5, 16}) {
    for (const bool sends_slowly : {false, true})
      for (const bool receives_slowly : {false, true}) {
        const std::map<std::string, double> slow = {{"n2", 50.0}}, none;
        for (const auto& [host, mb_per_s] :
             figures_with(count, sends_slowly ? slow : none, receives_slowly ? slow : none))
          CHECK_MESSAGE(mb_per_s == (host == "n2" && (sends_slowly || receives_slowly) ? 50 : 1000),
                        host << " of " << count);
      }
  }
}

TEST_CASE("exchange: a host of which one direction was not tried has no figure") {
  CHECK(network_figures({{"n1", "n2", 5}}).empty());
  CHECK(network_figures({{"n1", "n2", 5}, {"n2", "n1", 7}}).at("n1") == 5);
}

TEST_CASE("exchange: the slow host is named with its figure beside the others, and few hosts name none") {
  std::map<std::string, HostFigures> fleet;
  for (const auto& [host, mb_per_s] : figures_with(4, {{"n3", 20.0}}, {})) fleet[host].network_mb_per_s = mb_per_s;
  const auto slow = slow_hosts(fleet, 0.5);
  REQUIRE(slow.size() == 1);
  CHECK(slow.at("n3").fault == FaultClass::slow_host);
  CHECK(slow.at("n3").what.find("20.0 MB/s of network, 2 % of the median of 4 hosts") != std::string::npos);
  CHECK(slow_hosts(fleet, 0.01).empty());
  fleet.erase("n1"), fleet.erase("n2");
  CHECK(slow_hosts(fleet, 0.5).empty());
}
