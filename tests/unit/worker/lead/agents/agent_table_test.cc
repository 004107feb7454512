#include "worker/lead/agents/agent_table.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <set>
#include <thread>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "resiliency/beat/beat_line.h"
#include "tests/support/ahead_clock.h"
#include "tests/support/scratch.h"
#include "tests/unit/worker/agent_rig.h"
#include "worker/agent/agent.h"
#include "worker/lead/monitor/stack_round.h"
#include "worker/protocol/ranks/process_watch.h"

using namespace longhaul;

TEST_CASE("agents: the lead sees what the pages of a node say, and whether its ranks run") {
  AgentRig rig;
  rig.open_table();
  struct stat secret{};
  REQUIRE(::stat(rig.path("secret").c_str(), &secret) == 0);
  CHECK((secret.st_mode & 0777) == 0600);
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  CHECK(rig.table->agents().at("n1").connected);
  CHECK(!rig.table->agents().at("n2").connected);

  PretendedRank three(rig.scratch.path(), 3);
  three.page->step(7);
  rig.table->watch(2, rig.scratch.path(), {{"n1", {3}}, {"n2", {4}}});
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 3) && rank_in(*rig.table, 3)->beat.step == 7; }));
  CHECK(rank_in(*rig.table, 3)->state == ProcessState::running);
  CHECK(rank_in(*rig.table, 4) == nullptr);
  three.page->step(8);
  CHECK(rig.sees([&] { return rank_in(*rig.table, 3)->beat.step == 8; }, 2'000));

  const auto state_is = [&](ProcessState state) {
    return [&rig, state] { return rank_in(*rig.table, 3)->state == state; };
  };
  ::kill(three.pid, SIGSTOP);
  CHECK(rig.sees(state_is(ProcessState::stopped), 2'000));
  rig.table->signal("n1", {3}, SIGCONT);
  CHECK(rig.sees(state_is(ProcessState::running), 2'000));
  CHECK(rig.sees([&] { return rank_in(*rig.table, 3)->idle_ms > 300; }, 2'000));
  three.end();
  CHECK(rig.sees(state_is(ProcessState::ended), 2'000));

  rig.table->end(5'000);
  rig.thread.join();
  CHECK(rig.ended.ok());
}

TEST_CASE(
    "agents: a program that says in text what it does is seen like any other, also after its lead has come back") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  rig.table->watch(1, rig.scratch.path(), {{"n1", {3}}});
  SpawnSpec program;
  program.environment = {{beat_socket_variable, beat_socket_path(rig.scratch.path(), 3)}};
  program.argv = {"python3", "-c",
                  "import os, socket, time\n"
                  "s = socket.socket(socket.AF_UNIX)\n"
                  "while s.connect_ex(os.environ['LONGHAUL_BEAT_SOCKET']): time.sleep(0.01)\n"
                  "for step in range(100000): s.sendall(b'step %d\\n' % step); time.sleep(0.01)\n"};
  program.dies_with_starter = true;
  const auto pid = spawn(program);
  REQUIRE(pid.ok());
  const auto step = [&] { return rig.table && rank_in(*rig.table, 3) ? rank_in(*rig.table, 3)->beat.step : -1; };
  CHECK(rig.sees([&] { return step() > 3; }));
  REQUIRE(rank_in(*rig.table, 3));
  CHECK(rank_in(*rig.table, 3)->beat.pid == *pid);
  CHECK(rank_in(*rig.table, 3)->state == ProcessState::running);
  const std::int64_t before = step();
  rig.table.reset();
  rig.open_table(2);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {3}}});
  REQUIRE(rig.sees([&] { return step() > before; }));
  ::kill(*pid, SIGKILL);
  CHECK(rig.sees([&] { return rank_in(*rig.table, 3) && rank_in(*rig.table, 3)->state == ProcessState::ended; }));
  while (!poll_exit(*pid)->has_value()) ::usleep(2'000);
  rig.table->end(5'000);
  rig.thread.join();
  CHECK(!file_exists(beat_socket_path(rig.scratch.path(), 3)));
}

TEST_CASE("agents: each writes the stacks of its ranks where the lead says") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  const PretendedRank three(rig.scratch.path(), 3);
  rig.table->watch(2, rig.scratch.path(), {{"n1", {3, 4}}, {"n2", {5}}});
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 3) != nullptr; }));
  StackRound round("", rig.clock);
  round.begin(rig.scratch.path(), 5, {}, rig.table.get());
  std::optional<OrderOutcome> outcome;
  CHECK(rig.sees(
      [&] { return file_exists(rig.path("stacks/rank-4.txt")) && file_exists(rig.path("stacks/rank-3.txt")); }));
  CHECK(!round.look());  // nothing has come of rank 0, and that is waited for a while
  const auto text = read_file(rig.path("stacks/rank-3.txt"));
  REQUIRE(text.ok());
  CHECK(text->find(format("thread {} sleep", three.pid)) != std::string::npos);
  CHECK(read_file(rig.path("stacks/rank-4.txt"))->find("says which process it is") != std::string::npos);
  for (const int rank : {0, 1, 2}) REQUIRE(write_file_renamed(rig.path(format("stacks/rank-{}.txt", rank)), "").ok());
  CHECK(rig.sees([&] { return (outcome = round.look()).has_value(); }));
  CHECK(outcome->done);
  CHECK(outcome->text.find("stacks of 5 ranks in ") == 0);
  CHECK(!round.look());
}

TEST_CASE("agents: strangers at the port change nothing") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  const auto address = read_lead_address(rig.path("address"));
  REQUIRE(address.ok());
  const auto call = [&](const std::string& bytes) {
    auto socket = connect_to("127.0.0.1", address->port);
    REQUIRE(socket.ok());
    REQUIRE(rig.sees([&] { return ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0; }));
    const int before = rig.table->refused();
    CHECK(rig.sees([&] { return rig.table->refused() > before; }));
  };
  call("GET / HTTP/1.1\r\n\r\n" + std::string(64, ' '));
  WireSession forger = WireSession::agent("a guess", std::string(64, 'f'), 1, [] {
    Value hello = Value::make_table();
    hello.set("host", "n1");
    return hello;
  }());
  WireSession any_lead = WireSession::lead("a guess", std::string(64, 'e'), 1);
  REQUIRE(forger.take(any_lead.outgoing()).ok());
  call(forger.outgoing());
  CHECK(rig.table->agents().at("n1").connected);
  CHECK(rig.sees([&] { return rig.table->agents().at("n1").heard_ns > 0; }));
}

TEST_CASE("agents: a host that is not of this attempt is refused, and learns so") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent("n9");
  CHECK(rig.sees([&] { return rig.table->refused() > 0; }));
  CHECK(rig.table->connected() == 0);
}

TEST_CASE("agents: of two on one host the one that is there stays, and the other ends and leaves its pages alone") {
  AgentRig rig;
  rig.open_table();
  PretendedRank zero(rig.scratch.path(), 0);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  const auto address = read_lead_address(rig.path("address"));
  const auto secret = read_lead_secret(rig.path("secret"));
  REQUIRE(address.ok());
  REQUIRE(secret.ok());
  auto socket = connect_to("127.0.0.1", address->port);
  REQUIRE(socket.ok());
  Value hello = Value::make_table();
  hello.set("host", "n1");
  hello.set("pid", 1);  // of another process than the one that comes later
  Connection first(std::move(*socket), WireSession::agent(*secret, std::string(64, 'a'), 1, hello));
  NodeReport report;
  report.host = "n1", report.launch = 1;
  const auto first_says_something = [&] {
    if (first.session().open()) first.session().send(WireKind::report, node_report_to_value(report));
    REQUIRE(first.pump().ok());
  };
  REQUIRE(rig.sees([&] { return first_says_something(), rig.table->connected() == 1; }));
  CHECK(rig.table->agents().at("n1").peer.address == "127.0.0.1");
  rig.start_agent();
  CHECK(rig.sees([&] { return first_says_something(), rig.table->refused() == 1; }));
  rig.thread.join();
  REQUIRE(!rig.ended.ok());
  CHECK(rig.ended.error().code == ErrorCode::conflict);
  CHECK(rig.table->agents().at("n1").pid == 1);
  CHECK(file_exists(zero.path));
}

TEST_CASE("agents: an agent that loses its lead finds the next one, and no way back to the former") {
  AgentRig rig;
  rig.open_table();
  PretendedRank zero(rig.scratch.path(), 0);
  zero.page->step(1);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 0) != nullptr; }));
  // The lead is gone; another takes over a while later.
  rig.table.reset();
  rig.clock.sleep_ms(400);
  CHECK(process_state(zero.pid) == ProcessState::running);
  rig.open_table(2);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  CHECK(rig.sees([&] { return rank_in(*rig.table, 0) && rank_in(*rig.table, 0)->beat.step == 1; }));

  rig.table.reset();
  rig.open_table(1);  // the former lead comes back
  CHECK(!rig.sees([&] { return rig.table->connected() > 0; }, 1'500));
}

TEST_CASE("agents: alone without a rank that lives an agent ends by itself") {
  AgentRig rig;
  rig.start_agent("n1", 0.3);
  rig.thread.join();
  REQUIRE(!rig.ended.ok());
  CHECK(rig.ended.error().code == ErrorCode::unavailable);
}

TEST_CASE("agents: a secret that others can read is none") {
  AgentRig rig;
  rig.open_table();
  REQUIRE(::chmod(rig.path("secret").c_str(), 0644) == 0);
  rig.start_agent();
  rig.thread.join();
  REQUIRE(!rig.ended.ok());
  CHECK(rig.ended.error().message().find("secret") != std::string::npos);
}

TEST_CASE("agents: who has lost the lead turns to the one in waiting, which leads from the next epoch on") {
  AgentRig rig;
  rig.open_table();
  PretendedRank zero(rig.scratch.path(), 0);
  zero.page->step(5);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 0) != nullptr; }));

  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  AgentOrder standby;
  standby.kind = AgentOrder::Kind::standby;
  standby.host = "127.0.0.1", standby.port = listener->port();
  auto waiting = AgentTable::in_waiting(rig.options(), std::move(*listener), rig.clock, rig.log);
  REQUIRE_MESSAGE(waiting.ok(), (waiting.ok() ? "" : waiting.error().message()));
  // As long as the lead is there nobody turns to it.
  rig.table->order_all(standby);
  for (int i = 0; i < 50; ++i) rig.table->look(), (*waiting)->look(), rig.clock.sleep_ms(10);
  CHECK((*waiting)->connected() == 0);

  rig.table.reset();  // its secret goes with it: the agent has read it before
  rig.table = std::move(*waiting);
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  CHECK(rig.table->epoch() == 1);
  REQUIRE(rig.table->take_over().ok());
  CHECK(rig.table->epoch() == 2);
  CHECK(!rig.table->agents().at("n2").connected);
  CHECK(rig.table->agents().at("n2").lost_ns > 0);  // missing since the lead waited
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  CHECK(rig.sees([&] { return rank_in(*rig.table, 0) && rank_in(*rig.table, 0)->beat.step == 5; }));
  const auto address = read_lead_address(rig.path("address"));
  REQUIRE(address.ok());
  CHECK(address->epoch == 2);
  CHECK(process_state(zero.pid) == ProcessState::running);

  // In-process orders reach the page, signals the process.
  rig.table->restart(7);
  CHECK(rig.sees([&] { return zero.page->restart_epoch() == 7; }));
}

TEST_CASE("agents: the node of the lost lead has been missing since then, if its kernel is silent, too") {
  AgentRig rig;
  const auto missing_ms = [&](const PeerAddress& at, std::int64_t lost_ms_ago, const std::set<std::string>& out = {}) {
    rig.table.reset();
    rig.open_table();  // makes the secret
    auto listener = Listener::open(0, false);
    REQUIRE(listener.ok());
    const std::int64_t opened = rig.clock.monotonic_ns();
    auto waiting = AgentTable::in_waiting(rig.options(), std::move(*listener), rig.clock, rig.log, "n1",
                                          {opened - lost_ms_ago * 1'000'000, at});
    REQUIRE(waiting.ok());
    for (const Deadline deadline(rig.clock, 100); !deadline.passed(); rig.clock.sleep_ms(10)) (*waiting)->look();
    REQUIRE((*waiting)->take_over(out).ok());
    const auto& agents = (*waiting)->agents();
    CHECK((agents.at("n2").lost_ns - opened) / 1'000'000 <= 20);  // of any other node only since it was waited for
    CHECK(agents.at("n2").lost_ns >= opened);
    CHECK(agents.at("n1").heard_ns == agents.at("n1").lost_ns);
    CHECK(agents.at("n1").peer.port == at.port);
    return static_cast<double>(opened - agents.at("n1").lost_ns) * 1e-6;
  };
  const PeerAddress nobody{"255.255.255.255", 9};  // a broadcast: no host's own, and nothing leaves this one
  CHECK(missing_ms(nobody, 300) == doctest::Approx(300).epsilon(0.1));
  // An agent that lives there had no time to come to a lead that waits so late.
  CHECK(missing_ms(nobody, 5'000) == doctest::Approx(400).epsilon(0.1));
  // The lead alone has died: nobody listens at its port any more, and the kernel says so.
  int port = 0;
  {
    const auto gone = Listener::open(0, false);
    REQUIRE(gone.ok());
    port = gone->port();
  }
  CHECK(missing_ms({"127.0.0.1", port}, 300) <= 0);
  // The scheduler has taken the node out of the job: nothing can come from there any more.
  CHECK(missing_ms({"127.0.0.1", port}, 5'000, {"n1"}) == doctest::Approx(5'000).epsilon(0.1));
}

TEST_CASE("agents: a node that the scheduler has taken out of the job has been missing since the lead was lost") {
  AgentRig rig;
  for (const bool lead_was_known : {true, false}) {
    CAPTURE(lead_was_known);
    rig.table.reset();
    rig.open_table();
    auto listener = Listener::open(0, false);
    REQUIRE(listener.ok());
    const std::int64_t opened = rig.clock.monotonic_ns();
    // n2 is not where the lead was.
    auto waiting = AgentTable::in_waiting(rig.options(), std::move(*listener), rig.clock, rig.log, "n1",
                                          {lead_was_known ? opened - 5'000'000'000 : 0, {}});
    REQUIRE(waiting.ok());
    REQUIRE((*waiting)->take_over({"n2"}).ok());
    const auto& agents = (*waiting)->agents();
    const double missing_s = static_cast<double>(opened - agents.at("n2").lost_ns) * 1e-9;
    if (lead_was_known)
      CHECK(missing_s == doctest::Approx(5).epsilon(0.1));
    else
      CHECK(missing_s <= 0);
    CHECK(agents.at("n1").lost_ns >= opened);  // nothing is said of it, and nothing was heard of where it was
  }
}

TEST_CASE("agents: a lead whose address cannot be written leads all the same, and its agents come back to it") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  AgentOrder standby;
  standby.kind = AgentOrder::Kind::standby;
  standby.host = "127.0.0.1", standby.port = listener->port();
  AgentTableOptions nowhere = rig.options();
  nowhere.address_path = rig.path("no-such-folder/address");
  auto waiting = AgentTable::in_waiting(nowhere, std::move(*listener), rig.clock, rig.log);
  REQUIRE(waiting.ok());
  rig.table->order_all(standby);
  for (int i = 0; i < 10; ++i) rig.table->look(), rig.clock.sleep_ms(10);
  rig.table = std::move(*waiting);
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  CHECK(!rig.table->take_over().ok());
  CHECK(rig.table->epoch() == 2);
  CHECK(rig.table->connected() == 0);
  CHECK(rig.sees([&] { return rig.table->connected() == 1; }, 1'000));
}

TEST_CASE(
    "agents: a lead that finds itself alone knows by the file of the address whether another one has followed it") {
  AgentRig rig;
  rig.open_table(3);
  rig.table->look_for_successor();
  CHECK(!rig.table->superseded());
  REQUIRE(write_lead_address(rig.path("address"), {"key", 4, "n2", 7}).ok());
  rig.table->look_for_successor();
  CHECK(rig.table->superseded());
  rig.table.reset();
  rig.open_table(5);
  rig.table->look_for_successor();
  CHECK(!rig.table->superseded());
  // Somebody has removed the file: nobody else leads, and agents find this one again.
  REQUIRE(remove_tree(rig.path("address")).ok());
  rig.table->look_for_successor();
  CHECK(!rig.table->superseded());
  const auto again = read_lead_address(rig.path("address"));
  REQUIRE(again.ok());
  CHECK(again->epoch == 5);
  CHECK(again->port == rig.table->address().port);
  // Another lead has written the record, and then removed it.
  REQUIRE(write_file_atomic(rig.path("record"), "{}").ok());
  rig.table->look_for_successor();
  CHECK(!rig.table->superseded());
  REQUIRE(remove_tree(rig.path("address")).ok());
  rig.table->look_for_successor();
  CHECK(rig.table->superseded());
  CHECK(!file_exists(rig.path("address")));
}

TEST_CASE("agents: an order to restart in-process reaches the ranks of an agent that comes after it") {
  AgentRig rig;
  PretendedRank zero(rig.scratch.path(), 0);
  rig.open_table();
  rig.table->watch(3, rig.scratch.path(), {{"n1", {0}}}, 1'000);
  rig.table->restart(4);  // nobody hears it: the agent has just died
  rig.start_agent();
  CHECK(rig.sees([&] { return zero.page->restart_epoch() == 4; }));
  rig.stop = true;
  rig.thread.join();
  // Of another launch it says nothing.
  PretendedRank next(rig.scratch.path(), 1);
  rig.table->watch(4, rig.scratch.path(), {{"n1", {1}}}, 1'000);
  rig.stop = false;
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 1) != nullptr; }));
  CHECK(next.page->restart_epoch() == 0);
}

TEST_CASE("agents: the standby starts a lead of its own when the lead is lost, and not before") {
  AgentRig rig;
  const std::string started = rig.path("started"), worker = rig.path("worker");
  REQUIRE(write_file_atomic(worker,
                            "#!/bin/sh\nstat -c %a \"$5\" \"${5%/*}\" > " + rig.path("modes") + "\necho \"$@\" > " +
                                started + "\ncat \"$5\" >> " + started + "\n",
                            0755)
              .ok());
  rig.worker_program = worker;
  rig.open_table();
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  AgentOrder state;
  state.kind = AgentOrder::Kind::state;
  state.state = Value::make_table();
  state.state.set("launch", 3);
  rig.table->order("n1", state);
  REQUIRE(rig.sees([&] { return rig.table->agents().at("n1").report.standby_port > 0; }));
  CHECK(!file_exists(started));
  // Who did not hear of it in time finds it beside the lead's address.
  const auto beside = read_lead_address(standby_address_path(rig.path("address")));
  REQUIRE(beside.ok());
  CHECK(beside->port == rig.table->agents().at("n1").report.standby_port);
  rig.table.reset();
  const Deadline deadline(rig.clock, 10'000);
  while (!deadline.passed() && !(read_file(started).ok() && read_file(started)->find("launch") != std::string::npos))
    rig.clock.sleep_ms(10);
  const auto command = read_file(started);
  REQUIRE(command.ok());
  CHECK(command->find("lead --attempt attempt-folder --take-over ") == 0);
  CHECK(command->find("\"launch\":3") != std::string::npos);
  CHECK(read_file(rig.path("modes")).value() == "600\n700\n");                  // of the state, and of its folder
  CHECK(command->find(format("standby-{}", ::getpid())) == std::string::npos);  // a name that others could know
  const auto reported = parse_json(command->substr(command->find('{')));
  REQUIRE(reported.ok());
  const LostLead lost = lost_lead_of(*reported);
  CHECK(lost.at.address == "127.0.0.1");
  CHECK(lost.at.port > 0);
  CHECK(lost.since_ns > 0);
  CHECK(lost.since_ns < rig.clock.monotonic_ns());
}

TEST_CASE("agents: a user's order reaches a page on another node once, however often it is sent, and comes back done") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent();
  PretendedRank zero(rig.scratch.path(), 0);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  REQUIRE(rig.sees([&] { return rank_in(*rig.table, 0) != nullptr; }));
  const Order save{"001", "checkpoint", 0}, shorter{"002", "stop_after", 500};
  for (int again = 0; again < 3; ++again) rig.table->order_page("n1", 0, save), rig.table->order_page("n1", 0, shorter);
  REQUIRE(rig.sees([&] { return zero.page->stop_after_step() == 500; }));
  CHECK(zero.page->checkpoint_orders() == 1);
  CHECK(zero.page->orders() == 2);
  const auto done = [&] { return rig.table->agents().at("n1").report.orders_done; };
  CHECK(done().empty());
  zero.page->obeyed(1);
  CHECK(rig.sees([&] { return done() == std::vector<std::string>{"001"}; }, 2'000));
  zero.page->obeyed(2);
  CHECK(rig.sees([&] { return done() == std::vector<std::string>{"001", "002"}; }, 2'000));
}

TEST_CASE(
    "agents: ranks hear when they are ended by force, those that are there and those that come later, by any clock") {
  testing::AheadClock ahead;  // outlives the agent
  AgentRig rig;
  rig.open_table();
  rig.start_agent("n1", 60, &ahead);
  PretendedRank early(rig.scratch.path(), 0);
  constexpr std::int64_t hour_ns = 3'600'000'000'000;
  const std::int64_t now = rig.clock.monotonic_ns();
  // Sent is what is left when it is sent: late by the way of the message, and never early.
  const auto is_sent = [&](const PretendedRank& rank, std::int64_t end_ns) {
    return rig.sees([&] {
      const std::int64_t off_ns = rank.page->end_by_ns() - end_ns;
      return off_ns > -2'000'000 && off_ns < 5'000'000'000;
    });
  };
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0, 1}}}, 0, now + 2 * hour_ns);
  CHECK(is_sent(early, now + 2 * hour_ns));
  rig.table->must_end_by(now + hour_ns);
  CHECK(is_sent(early, now + hour_ns));
  PretendedRank late(rig.scratch.path(), 1);
  CHECK(is_sent(late, now + hour_ns));
}
