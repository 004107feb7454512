// Two nodes that both hold themselves to be the standby: a lead that named one, did not reach all agents any more, and
// named another. Real agents and leads in waiting, over loopback; each stands at an address of its own.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "worker/agent/agent.h"
#include "worker/agent/leads/epoch_promise.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/failover/majority_wait.h"
#include "worker/protocol/node/stand_in_turn.h"

namespace longhaul {
namespace {

const std::vector<std::string> four = {"n1", "n2", "n3", "n4"};
const std::string first_at = "127.0.0.1", a_at = "127.0.0.2", b_at = "127.0.0.3";

struct FourAgents {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::unique_ptr<AgentTable> lead;
  std::string secret;
  Listener a, b;
  std::mutex mutex;
  std::vector<LeadEpoch> led;  // under mutex

  static Listener anywhere() {
    auto listener = Listener::open(0, true);
    REQUIRE(listener.ok());
    return std::move(*listener);
  }
  FourAgents() : a(anywhere()), b(anywhere()) {
    auto opened = AgentTable::open(options(first_at), clock, log);
    REQUIRE(opened.ok());
    lead = std::move(*opened);
    secret = read_file(path("secret")).value();
    for (const std::string& host : four)
      threads.emplace_back([this, host] {
        (void)run_agent({path("address"), path("secret"), host, 60, "/bin/true", "attempt"}, clock, stop, log).ok();
      });
    REQUIRE(lead_sees([&] { return lead->connected() == 4; }));
    // B was named last.
    REQUIRE(write_lead_address(standby_address_path(path("address")), {"", 1, b_at, b.port()}).ok());
  }
  ~FourAgents() {
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }

  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  AgentTableOptions options(const std::string& host, std::int64_t asks = 0) const {
    return {"key", path("address"), path("secret"), host, 1, true, four, path("record"), asks};
  }
  bool lead_sees(const std::function<bool()>& what) {
    for (const Deadline deadline(clock, 10'000); !deadline.passed(); clock.sleep_ms(10))
      if (lead->look(), what()) return true;
    return false;
  }
  void announce(const std::string& host, const std::string& standby, int port) {
    AgentOrder order;
    order.kind = AgentOrder::Kind::standby;
    order.host = standby, order.port = port;
    lead->order(host, order);
  }
  // Killed: its files stay.
  void lose_lead() {
    for (int i = 0; i < 20; ++i) lead->look(), clock.sleep_ms(10);
    lead.reset();
    REQUIRE(write_file_atomic(path("secret"), secret, 0600).ok());
  }
  std::unique_ptr<AgentTable> wait_at(const std::string& host, const Listener& listener, std::int64_t asks) {
    auto own = Listener::take(FileDescriptor(::dup(listener.descriptor())));
    REQUIRE(own.ok());
    auto waiting = AgentTable::in_waiting(options(host, asks), std::move(*own), clock, log, first_at);
    REQUIRE(waiting.ok());
    return std::move(*waiting);
  }
  // As the agent of a standby does: one lead in waiting after the other, each asking for a later number.
  void stand_in(const std::string& host, const Listener& listener) {
    SchedulerVote nobody(ask_for_nodes_of(""), host, clock);
    for (std::int64_t asks = 2; !stop; ++asks) {
      std::unique_ptr<AgentTable> table = wait_at(host, listener, asks);
      if (!wait_for_majority(*table, HostPool(four, 4), nobody, clock, log).ok()) {
        table.reset();
        for (const Deadline pause(clock, stand_in_pause_ms(host == b_at)); !pause.passed() && !stop;)
          clock.sleep_ms(20);
        continue;
      }
      REQUIRE(table->take_over().ok());
      {
        const std::lock_guard lock(mutex);
        led.emplace_back(table->epoch(), host);
      }
      for (; !stop && !table->superseded(); clock.sleep_ms(10)) table->look();
      return;
    }
  }
  std::vector<LeadEpoch> leads() {
    const std::lock_guard lock(mutex);
    return led;
  }
};

}  // namespace

TEST_CASE("epoch promise: a number is given once, to whoever asked first, and a later one anew") {
  EpochPromise promise;
  const LeadEpoch led(1, "n1");
  CHECK(promise.newest().number == 0);
  CHECK(!promise.give({1, "n2"}, led));  // has had its lead
  CHECK(!promise.give({2, ""}, led));
  CHECK(promise.give({2, "n2"}, led));
  CHECK(promise.give({2, "n2"}, led));
  CHECK(!promise.give({2, "n3"}, led));
  CHECK(!promise.give({2, "n1"}, led));
  CHECK(promise.newest() == LeadEpoch(2, "n2"));
  CHECK(promise.give({3, "n3"}, led));
  CHECK(!promise.give({2, "n2"}, led));
  CHECK(!promise.give({4, "n4"}, {4, "n1"}));
}

TEST_CASE("lead epoch: of two leads of one number everybody takes the same for the later one") {
  CHECK(LeadEpoch(2, "n1") < LeadEpoch(2, "n2"));
  CHECK(LeadEpoch(2, "n9") < LeadEpoch(3, "n1"));
  CHECK(LeadEpoch(2) < LeadEpoch(2, "n1"));
  CHECK(lead_epoch_of(lead_epoch_to_value({7, "n3"})) == LeadEpoch(7, "n3"));
  CHECK(lead_epoch_of(Value(3)).number == 0);
}

TEST_CASE("two standbys: where half of the agents know of either, one of them leads all within ten seconds") {
  FourAgents rig;
  for (const char* host : {"n1", "n2"}) rig.announce(host, a_at, rig.a.port());
  for (const char* host : {"n3", "n4"}) rig.announce(host, b_at, rig.b.port());
  rig.lose_lead();
  const std::int64_t lost_ns = rig.clock.monotonic_ns();
  rig.threads.emplace_back([&] { rig.stand_in(a_at, rig.a); });
  rig.threads.emplace_back([&] { rig.stand_in(b_at, rig.b); });
  while (rig.leads().empty() && rig.clock.monotonic_ns() - lost_ns < 15'000'000'000) rig.clock.sleep_ms(20);
  CHECK(rig.clock.monotonic_ns() - lost_ns < 10'000'000'000);
  rig.clock.sleep_ms(1'000);
  REQUIRE(rig.leads().size() == 1);
  const auto named = read_lead_address(rig.path("address"));
  REQUIRE(named.ok());
  CHECK(named->lead_epoch() == rig.leads().front());
}

TEST_CASE("two standbys: agents stay with a lead in waiting for as long as it waits") {
  FourAgents rig;
  for (const std::string& host : four) rig.announce(host, a_at, rig.a.port());
  rig.lose_lead();
  const std::unique_ptr<AgentTable> waiting = rig.wait_at(a_at, rig.a, 2);
  SchedulerVote nobody(ask_for_nodes_of(""), a_at, rig.clock);
  const HostPool many({"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"}, 9);  // the four are no majority of these
  CHECK(!wait_for_majority(*waiting, many, nobody, rig.clock, rig.log).ok());
  CHECK(waiting->connected() == 4);
  for (const auto& [host, agent] : waiting->agents()) CHECK_MESSAGE(agent.lost_ns == 0, host);  // has never left it
}

TEST_CASE(
    "two standbys: whom most agents have promised an epoch is the only one to lead in it, however long it takes") {
  FourAgents rig;
  for (const std::string& host : four) rig.announce(host, a_at, rig.a.port());
  rig.lose_lead();
  std::unique_ptr<AgentTable> slow = rig.wait_at(a_at, rig.a, 2);
  SchedulerVote nobody(ask_for_nodes_of(""), a_at, rig.clock);
  REQUIRE(wait_for_majority(*slow, HostPool(four, 4), nobody, rig.clock, rig.log).ok());
  for (const Deadline all(rig.clock, 5'000); slow->connected() < 4 && !all.passed(); rig.clock.sleep_ms(10))
    slow->look();
  REQUIRE(slow->connected() == 4);
  // It stands still, as before a file system that does not answer. Its agents leave it for the other one.
  std::unique_ptr<AgentTable> other = rig.wait_at(b_at, rig.b, 2);
  int most = 0;
  const auto look = [&] {
    other->look();
    most = std::max(most, other->connected());
  };
  const auto came = [&] {
    return std::count_if(four.begin(), four.end(), [&](const auto& host) { return other->agents().at(host).pid > 0; });
  };
  for (const Deadline deadline(rig.clock, 8'000); !deadline.passed() && came() < 4; rig.clock.sleep_ms(10)) look();
  CHECK(came() == 4);
  for (const Deadline answers(rig.clock, 1'000); !answers.passed(); rig.clock.sleep_ms(10)) look();
  CHECK(most == 0);
  REQUIRE(slow->take_over().ok());
  other.reset();
  for (const Deadline all(rig.clock, 5'000); slow->connected() < 4 && !all.passed(); rig.clock.sleep_ms(10))
    slow->look();
  CHECK(slow->connected() == 4);
  CHECK(slow->epoch() == 2);
  CHECK(!slow->superseded());
}

}  // namespace longhaul
