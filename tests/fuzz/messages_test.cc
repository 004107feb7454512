// What lead and agents send each other, and what ranks leave for them, damaged: frames, reports, orders, entries,
// pages.
#include <doctest/doctest.h>

#include <cstdio>

#include "base/files/files.h"
#include "base/value/json.h"
#include "contracts/control/rendezvous_folder.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/plain_file.h"
#include "tests/support/scratch.h"
#include "worker/lead/agents/rendezvous_store.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/wire/store_message.h"
#include "worker/protocol/wire/wire.h"

namespace longhaul {
namespace {

using fuzz::good_or_refused;

const std::string fuzz_secret = "of this attempt";

Value some_entries() {
  return store_message_to_value({1,
                                 {{"epoch1-axis0-00ff-0", std::string(128, '\x80')}, {"id.rank3", "here"}},
                                 {"epoch1-axis1-00ff-0", "other"},
                                 {{"torn", "n1 and n2 have left different ones"}}});
}

Value some_report() {
  NodeReport report;
  report.host = "n1", report.launch = 2;
  RankReport rank;
  rank.beat.rank = 3, rank.beat.pid = 77, rank.beat.step = 12, rank.beat.section = "micro_batch";
  rank.beat.communicators = {{"tp@2", 9, 8}, {"pp@1", 0, 0}};
  rank.beat.waits_in = 1, rank.state = ProcessState::stopped;
  report.ranks = {rank};
  report.health.since = 99;
  report.health.notes = {{7, health_finding("disk", FaultClass::disk_low, "/runs", "1 % is free")}};
  report.exchange_port = 4321, report.exchanged = {{"n2", 812.5}};
  report.fault_problems = {{"at-0", "there is no script"}};
  return node_report_to_value(report);
}

Value some_order() {
  AgentOrder order;
  order.kind = AgentOrder::Kind::watch;
  order.launch = 2, order.folder = "/dev/shm/longhaul-1", order.store_dir = "/dev/shm/longhaul-1/store";
  order.ranks = {0, 1}, order.left_ms = 99, order.restart_wait_ms = 5;
  return agent_order_to_value(order);
}

}  // namespace

TEST_CASE("fuzz: entries on their way") {
  RendezvousStore store(StoreLimits{50, 10'000});
  store.begin(1);
  fuzz::run("store", {to_json(some_entries())}, 4000, [&](const std::string& text) {
    const auto value = parse_json(text, "message");
    if (!value.ok()) return false;
    const auto message = store_message_from_value(*value);
    if (!message.ok()) return good_or_refused(message);
    for (const auto* list : {&message->entries, &message->refused})
      for (const StoreEntry& entry : *list)
        REQUIRE((is_store_key(entry.name) && entry.value.size() <= store_value_bytes_max));
    for (const std::string& name : message->wanted) REQUIRE(is_store_key(name));
    const RendezvousStore::Outcome outcome = store.take("n1", *message);
    REQUIRE(outcome.to_hosts.size() <= 1);
    REQUIRE((store.entries() <= 50 && store.bytes() <= 10'000));
    return true;
  });
}

TEST_CASE("fuzz: reports and orders") {
  fuzz::run("reports", {to_json(some_report())}, 2000, [](const std::string& text) {
    const auto value = parse_json(text, "message");
    return value.ok() && good_or_refused(node_report_from_value(*value));
  });
  fuzz::run("orders", {to_json(some_order())}, 2000, [](const std::string& text) {
    const auto value = parse_json(text, "message");
    return value.ok() && good_or_refused(agent_order_from_value(*value));
  });
}

// Whatever is written there: what a reader takes out of it has its bounds.
TEST_CASE("fuzz: heartbeat pages") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("beat-3");
  {
    HeartbeatPage page = HeartbeatPage::create(path, 3).value();
    page.step(12);
    page.enter(page.section("micro_batch"));
    for (const char* name : {"tp@2", "pp@1", "dp@0"}) page.enqueued(page.communicator(name));
    page.waits(1, 2);
    page.order_stop_after(500);
  }
  fuzz::run("pages", {read_file(path).value()}, 4000, [&](const std::string& bytes) {
    std::remove(path.c_str());
    REQUIRE(write_plain(path, bytes));
    const auto page = HeartbeatPage::open(path);
    if (!page.ok()) return good_or_refused(page);
    const BeatSnapshot seen = page->snapshot();
    REQUIRE(seen.section.size() < bytes.size());
    REQUIRE(seen.communicators.size() < 64);
    for (const BeatCommunicator& one : seen.communicators) REQUIRE(one.name.size() < 64);
    REQUIRE(seen.waits_in < static_cast<int>(seen.communicators.size()));
    return true;
  });
}

// Who does not know the secret: whatever comes first, neither side takes it for anything, or keeps more than a
// greeting.
TEST_CASE("fuzz: greetings") {
  WireSession lead = WireSession::lead(fuzz_secret, std::string(64, 'a'), 1);
  const std::string challenge = lead.outgoing();
  WireSession agent = WireSession::agent(fuzz_secret, std::string(64, 'b'), 1, Value::make_table());
  REQUIRE(agent.take(challenge).ok());
  const std::string hello = agent.outgoing();
  fuzz::run("greetings", {challenge, hello}, 4000, [&](const std::string& bytes) {
    if (bytes == challenge || bytes.starts_with(hello)) return true;  // who has the secret; what follows are its frames
    WireSession a_lead = WireSession::lead(fuzz_secret, std::string(64, 'a'), 1);
    const auto at_lead = a_lead.take(bytes);
    if (at_lead.ok())
      REQUIRE_MESSAGE(at_lead->empty(), bytes);
    else
      REQUIRE((at_lead.error().code == ErrorCode::unavailable || at_lead.error().code == ErrorCode::aborted));
    WireSession an_agent = WireSession::agent(fuzz_secret, std::string(64, 'b'), 1, Value::make_table());
    const auto at_agent = an_agent.take(bytes);
    if (at_agent.ok())
      REQUIRE(at_agent->empty());
    else
      REQUIRE(at_agent.error().code == ErrorCode::unavailable);
    REQUIRE_FALSE(a_lead.open());
    REQUIRE_FALSE(an_agent.open());
    return at_lead.ok() && at_agent.ok();
  });
}

// Of frames that were changed on their way nothing is delivered but what came before the change.
TEST_CASE("fuzz: frames") {
  const auto agent_after_hello = [](WireSession& lead) {
    WireSession agent = WireSession::agent(fuzz_secret, std::string(64, 'b'), 1, Value::make_table());
    REQUIRE(agent.take(lead.outgoing()).ok());
    return agent;
  };
  WireSession lead = WireSession::lead(fuzz_secret, std::string(64, 'a'), 1);
  WireSession agent = agent_after_hello(lead);
  std::string said = agent.outgoing();
  REQUIRE(lead.take(said).ok());
  lead.welcome(Value::make_table());
  REQUIRE(agent.take(lead.outgoing()).ok());
  agent.send(WireKind::report, some_report());
  agent.send(WireKind::store, some_entries());
  const std::string frames = agent.outgoing();
  fuzz::run("frames", {frames}, 2000, [&](const std::string& bytes) {
    WireSession other = WireSession::lead(fuzz_secret, std::string(64, 'a'), 1);
    (void)other.outgoing();
    REQUIRE(other.take(said).ok());
    other.welcome(Value::make_table());
    const auto taken = other.take(bytes);
    if (!taken.ok()) return good_or_refused(taken);
    for (std::size_t i = 0; i < taken->size(); ++i)
      REQUIRE(to_json((*taken)[i].body) == to_json(i == 0 ? some_report() : some_entries()));
    return taken->size() == 2;
  });
}

}  // namespace longhaul
