// Hosts as addresses of loopback, in one thread: the figures of sound ones, of a slow one, and of one that is not
// there. Time passes with each look at the clock alone, so that a host takes as long as it has to work, however little
// of the machine this program gets.
#include "worker/protocol/node/host_exchange.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <functional>

#include "resiliency/health/fleet_exchange.h"
#include "tests/support/patience.h"

using namespace longhaul;

namespace {

class LookClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return monotonic_ns() / 1'000'000; }
  std::int64_t monotonic_ns() const override { return now_ns_ += look_ns; }
  void sleep_ms(std::int64_t ms) override { now_ns_ += ms * 1'000'000; }

 private:
  static constexpr std::int64_t look_ns = 10'000;  // about what a step with a piece of a block takes
  mutable std::int64_t now_ns_ = 0;
};

struct ExchangeFleet {
  LookClock clock;
  std::vector<std::string> hosts;
  std::map<std::string, std::unique_ptr<HostExchange>> nodes;

  explicit ExchangeFleet(int count) {
    for (int i = 1; i <= count; ++i) {
      hosts.push_back("n" + std::to_string(i));
      nodes[hosts.back()] = HostExchange::open("token", clock).value();
    }
  }
  std::string address_of(const std::string& host) const { return "127.0.0." + host.substr(1); }
  void begin(const std::function<int(const std::string&)>& port_of) {
    for (const auto& [host, partners] : exchange_partners(hosts)) {
      std::vector<ExchangePartner> reported;
      for (const std::string& partner : partners) reported.push_back({partner, address_of(partner), port_of(partner)});
      nodes[host]->begin(reported);
    }
  }
  bool done() const {
    for (const auto& [host, node] : nodes)
      if (!node->done()) return false;
    return true;
  }
  std::map<std::string, double> figures() const {
    std::vector<HostTransfer> transfers;
    for (const auto& [host, node] : nodes)
      for (const ExchangeFigure& one : node->figures()) transfers.push_back({host, one.to, one.mb_per_s});
    return network_figures(transfers);
  }
};

}  // namespace

TEST_CASE("exchange over sockets: every host has a figure, and one that works one time in thirty the lowest") {
  ExchangeFleet fleet(4);
  fleet.begin([&](const std::string& host) { return fleet.nodes[host]->port(); });
  const Deadline deadline(fleet.clock, 30'000);
  for (int round = 0; !fleet.done() && !deadline.passed(); ++round)
    for (auto& [host, node] : fleet.nodes)
      if (host != "n2" || round % 30 == 0) node->work(1);
  REQUIRE(fleet.done());
  const auto figures = fleet.figures();
  REQUIRE(figures.size() == 4);
  for (const auto& [host, mb_per_s] : figures) {
    CHECK(mb_per_s > 0);
    if (host != "n2")
      CHECK_MESSAGE(mb_per_s > 2 * figures.at("n2"), host << " " << mb_per_s << " n2 " << figures.at("n2"));
  }
}

TEST_CASE("exchange over sockets: a partner that takes nothing, or is not there, costs its deadline and no more") {
  ExchangeFleet fleet(3);
  const Listener deaf = Listener::open(0, true).value();  // connections are made, and nobody takes anything
  fleet.begin([&](const std::string& host) { return host == "n2" ? deaf.port() : fleet.nodes[host]->port(); });
  const std::int64_t began = fleet.clock.monotonic_ns();
  const Deadline deadline(fleet.clock, 30'000);
  while (!fleet.done() && !deadline.passed())
    for (auto& [host, node] : fleet.nodes) node->work(1);
  REQUIRE(fleet.done());
  CHECK(fleet.clock.monotonic_ns() - began < (2 * HostExchange::partner_ms + 6'000) * 1'000'000);
  const auto figures = fleet.figures();
  CHECK(figures.at("n2") == 0);
  CHECK(figures.at("n1") > 0);
  CHECK(figures.at("n3") > 0);
}

TEST_CASE("exchange over sockets: nothing is taken of somebody who does not know the token") {
  SystemClock clock;
  const auto node = HostExchange::open("token", clock).value();
  const FileDescriptor stranger = connect_to("127.0.0.1", node->port()).value();
  node->work(20);
  REQUIRE(::send(stranger.get(), "tokem", 5, MSG_NOSIGNAL) == 5);
  node->work(20);
  char byte = 0;
  CHECK(::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) == 0);  // closed
  CHECK(!HostExchange::open("", clock).ok());
}

TEST_CASE("trust: connections that never say the token leave room for who knows it, and end after a second") {
  SystemClock clock;
  const auto node = HostExchange::open("token", clock).value(), honest = HostExchange::open("token", clock).value();
  std::vector<FileDescriptor> silent;
  for (std::size_t i = 0; i < 2 * HostExchange::incoming_max; ++i) {
    silent.push_back(connect_to("127.0.0.1", node->port()).value());
    node->work(1);
  }
  honest->begin({{"n2", "127.0.0.1", node->port()}});
  const Deadline deadline(clock, testing::patience_ms(10'000));
  while (!honest->done() && !deadline.passed()) honest->work(1), node->work(1);
  REQUIRE(honest->done());
  CHECK(honest->figures().front().mb_per_s > 0);
  const auto closed = [&] {
    char byte = 0;
    return ::recv(silent.back().get(), &byte, 1, MSG_DONTWAIT) == 0;
  };
  while (!closed() && !deadline.passed()) node->work(10);
  CHECK(closed());
}
