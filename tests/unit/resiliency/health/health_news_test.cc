// What is new among findings, and which hosts are slow beside the others.
#include "resiliency/health/health_news.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "resiliency/health/host_figures.h"

namespace longhaul {
namespace {

HealthFinding low(const std::string& device, const std::string& what) {
  return health_finding("disk", FaultClass::disk_low, device, what);
}

}  // namespace

TEST_CASE("a finding that stays is new once, also when its figures change, and again after it was gone for long") {
  HealthNews news(1000);
  CHECK(news.take({low("/a", "3 % free")}, 0).size() == 1);
  CHECK(news.take({low("/a", "2 % free")}, 900).empty());
  CHECK(news.take({low("/a", "2 % free"), low("/b", "1 % free")}, 1800).size() == 1);
  CHECK(news.take({}, 2500).empty());
  CHECK(news.take({low("/a", "2 % free")}, 2700).empty());  // flaps
  CHECK(news.take({low("/a", "2 % free")}, 3800).size() == 1);
  HealthFinding xid = health_finding("gpu", FaultClass::gpu_program, "GPU 0", "XID 13");
  xid.xid = 13;
  CHECK(news.take({xid}, 4000).size() == 1);
  CHECK(news.take({xid}, 4100).empty());  // a storm
  xid.xid = 31;
  CHECK(news.take({xid}, 4200).size() == 1);
}

TEST_CASE("a finding goes over the wire whole, and only errors that accuse the host for sure leave it unfit") {
  HealthFinding lost = health_finding("gpu", FaultClass::gpu_lost, "GPU 3", "XID 79 (GPU has fallen off the bus)");
  lost.xid = 79;
  const HealthFinding read = health_finding_from_value(to_value(lost));
  CHECK(read.fault == FaultClass::gpu_lost);
  CHECK(read.severity == FaultSeverity::error);
  CHECK(read.scope == lost.scope);
  CHECK(read.device == "GPU 3");
  CHECK(read.what == lost.what);
  CHECK(read.check == "gpu");
  CHECK(read.xid == 79);
  CHECK(unfit_for_sure(read));
  CHECK(unfit_for_sure(health_finding("site", FaultClass::site_check, "", "")));
  CHECK(unfit_for_sure(health_finding("nic", FaultClass::nic_down, "", "")));
  CHECK(!unfit_for_sure(low("/a", "")));
  CHECK(!unfit_for_sure(health_finding("memory", FaultClass::out_of_memory, "", "")));
  CHECK(!unfit_for_sure(health_finding("gpu", FaultClass::gpu_program, "", "")));
  CHECK(!unfit_for_sure(health_finding("disk", FaultClass::file_system, "", "")));
}

TEST_CASE("a slow host is one below the floor and beyond the spread of the others") {
  std::map<std::string, HostFigures> fleet;
  for (int i = 0; i < 8; ++i) fleet[format("n{}", i)] = {40 + 0.2 * i, 12 - 0.05 * i};
  CHECK(slow_hosts(fleet, 0.7).empty());
  fleet["n3"].gflops = 20;
  auto slow = slow_hosts(fleet, 0.7);
  REQUIRE(slow.size() == 1);
  CHECK(slow.at("n3").fault == FaultClass::slow_host);
  CHECK(slow.at("n3").what.find("20.0 GFLOP/s, 49 % of the median of 8 hosts") == 0);
  fleet["n5"].gb_per_s = 5;
  CHECK(slow_hosts(fleet, 0.7).count("n5") == 1);
  CHECK(slow_hosts(fleet, 0.3).empty());
  // Half of the fleet is another machine: nobody is slow.
  for (int i = 0; i < 8; ++i) fleet[format("n{}", i)] = {i < 4 ? 40.0 + i : 20.0 + i, 12};
  CHECK(slow_hosts(fleet, 0.9).empty());
  // Two cannot say which of them is slow, and who was not measured is not judged.
  CHECK(slow_hosts({{"a", {40, 12}}, {"b", {4, 12}}}, 0.7).empty());
  CHECK(slow_hosts({{"a", {40, 12}}, {"b", {41, 12}}, {"c", {}}}, 0.7).empty());
}

TEST_CASE("a host can be measured") {
  const HostFigures figures = measure_host(20);
  CHECK(figures.measured());
  const HostFigures read = host_figures_from_value(to_value(figures));
  CHECK(read.gflops == figures.gflops);
  CHECK(read.gb_per_s == figures.gb_per_s);
}

}  // namespace longhaul
