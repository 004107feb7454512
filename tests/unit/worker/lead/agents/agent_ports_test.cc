// Where the programs of a job listen for each other, and how agents find a lead whose name is none of the network.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/files/files.h"
#include "tests/support/scratch.h"
#include "worker/agent/agent.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/protocol/wire/connection.h"

using namespace longhaul;

namespace {

struct PortsRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", ""};
  std::atomic<bool> stop{false};
  std::thread thread;
  std::unique_ptr<AgentTable> table;

  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  // A name that no network knows, at addresses that its file says beside it.
  void open_table(const std::vector<std::string>& addresses) {
    AgentTableOptions options{"key", path("address"), path("secret"), "no-such-name.invalid", 1, true, {"n1"}};
    options.addresses = addresses;
    options.ports = {61400, 61409};
    auto opened = AgentTable::open(options, clock, log);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    table = std::move(*opened);
    thread = std::thread([this] {
      (void)run_agent({path("address"), path("secret"), "n1", 60, "/bin/true", "attempt-folder"}, clock, stop, log)
          .ok();
    });
  }
  bool sees(const std::function<bool()>& what, std::int64_t within_ms = 20'000) {
    for (const Deadline deadline(clock, within_ms); !deadline.passed(); clock.sleep_ms(10)) {
      table->look();
      if (what()) return true;
    }
    return false;
  }
  ~PortsRig() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
};

bool inside(int port) {
  return port >= 61400 && port <= 61409;
}

}  // namespace

TEST_CASE("agent ports: lead, standby and exchange listen where the site lets nodes reach each other") {
  PortsRig rig;
  rig.open_table({"127.0.0.1"});
  CHECK(inside(rig.table->address().port));
  CHECK(read_lead_address(rig.path("address"))->addresses == std::vector<std::string>{"127.0.0.1"});
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  AgentOrder state;
  state.kind = AgentOrder::Kind::state;
  state.state = Value::make_table();
  state.state.set("attempt_key", "key");
  state.state.set("launch", Value::make_table());
  rig.table->order("n1", state);
  REQUIRE(rig.sees([&] { return rig.table->agents().at("n1").report.standby_port > 0; }));
  CHECK(inside(rig.table->agents().at("n1").report.standby_port));
  AgentOrder exchange;
  exchange.kind = AgentOrder::Kind::exchange, exchange.id = "token";
  rig.table->order("n1", exchange);
  REQUIRE(rig.sees([&] { return rig.table->agents().at("n1").report.exchange_port > 0; }));
  CHECK(inside(rig.table->agents().at("n1").report.exchange_port));
}

TEST_CASE("agent ports: an agent tries one address of its lead after the other, of IPv6 as well") {
  const auto six = Listener::open(0, true);
  REQUIRE(six.ok());
  if (!connect_to("::1", six->port()).ok()) {
    MESSAGE("this machine has no IPv6: not tried");
    return;
  }
  PortsRig rig;
  rig.open_table({"255.255.255.255", "::1"});  // the first is nobody's
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  CHECK(rig.table->agents().at("n1").peer.address == "::1");
}
