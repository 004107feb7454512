#include "worker/lead/agent_table.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <thread>

#include "base/files.h"
#include "base/process.h"
#include "tests/support/scratch.h"
#include "worker/agent/agent.h"

using namespace longhaul;

namespace {

// Real sockets on loopback, an agent in a thread of its own, pages in a scratch folder.
struct AgentRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", ""};
  std::atomic<bool> stop{false};
  std::thread thread;
  Status ended;
  std::unique_ptr<AgentTable> table;

  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  AgentTableOptions options(std::int64_t epoch = 1) const {
    return {"key", path("address"), path("secret"), "127.0.0.1", epoch, false, {"n1", "n2"}};
  }
  void open_table(std::int64_t epoch = 1) {
    auto opened = AgentTable::open(options(epoch), clock, log);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    table = std::move(*opened);
  }
  void start_agent(const std::string& host = "n1", double alone_max_s = 60) {
    thread = std::thread([this, host, alone_max_s] {
      ended = run_agent({path("address"), path("secret"), host, alone_max_s}, clock, stop, log);
    });
  }
  bool sees(const std::function<bool()>& what, std::int64_t within_ms = 10'000) {
    for (const Deadline deadline(clock, within_ms); !deadline.passed(); clock.sleep_ms(10)) {
      if (table) table->look();
      if (what()) return true;
    }
    return false;
  }
  ~AgentRig() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
};

}  // namespace

namespace {

// A page whose rank is another process: a program that sleeps.
struct PretendedRank {
  std::string path;
  std::optional<HeartbeatPage> page;
  pid_t pid = -1;

  PretendedRank(const std::string& folder, int rank) : path(beat_page_path(folder, rank)) {
    auto made = HeartbeatPage::create(path, rank);
    REQUIRE(made.ok());
    page.emplace(std::move(made).value());
    SpawnSpec sleeper;
    sleeper.argv = {"sleep", "60"};
    sleeper.dies_with_starter = true;
    const auto started = spawn(sleeper);
    REQUIRE(started.ok());
    pid = *started;
    const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const auto named = static_cast<std::int64_t>(pid);
    REQUIRE(::pwrite(fd.get(), &named, sizeof named, offsetof(BeatPageLayout, pid)) == sizeof named);
  }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (!poll_exit(pid)->has_value()) ::usleep(2'000);
    pid = -1;
  }
  ~PretendedRank() { end(); }
};

}  // namespace

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
  REQUIRE(rig.sees([&] { return rig.table->rank(3) && rig.table->rank(3)->beat.step == 7; }));
  CHECK(rig.table->rank(3)->state == ProcessState::running);
  CHECK(rig.table->rank(4) == nullptr);
  three.page->step(8);
  CHECK(rig.sees([&] { return rig.table->rank(3)->beat.step == 8; }, 2'000));

  const auto state_is = [&](ProcessState state) {
    return [&rig, state] { return rig.table->rank(3)->state == state; };
  };
  ::kill(three.pid, SIGSTOP);
  CHECK(rig.sees(state_is(ProcessState::stopped), 2'000));
  rig.table->signal("n1", {3}, SIGCONT);
  CHECK(rig.sees(state_is(ProcessState::running), 2'000));
  CHECK(rig.sees([&] { return rig.table->rank(3)->idle_ms > 300; }, 2'000));
  three.end();
  CHECK(rig.sees(state_is(ProcessState::ended), 2'000));

  rig.table->end(5'000);
  rig.thread.join();
  CHECK(rig.ended.ok());
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

TEST_CASE("agents: a host that is not of this attempt is refused, and told so") {
  AgentRig rig;
  rig.open_table();
  rig.start_agent("n9");
  CHECK(rig.sees([&] { return rig.table->refused() > 0; }));
  CHECK(rig.table->connected() == 0);
}

TEST_CASE("agents: an agent that loses its lead finds the next one, and no way back to the former") {
  AgentRig rig;
  rig.open_table();
  PretendedRank zero(rig.scratch.path(), 0);
  zero.page->step(1);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->rank(0) != nullptr; }));
  // The lead is gone; another takes over a while later.
  rig.table.reset();
  rig.clock.sleep_ms(400);
  CHECK(process_state(zero.pid) == ProcessState::running);
  rig.open_table(2);
  rig.table->watch(1, rig.scratch.path(), {{"n1", {0}}});
  CHECK(rig.sees([&] { return rig.table->rank(0) && rig.table->rank(0)->beat.step == 1; }));

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
