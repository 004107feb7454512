#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"
#include "worker/agent/agent.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/connections/strangers.h"

namespace longhaul {
namespace {

// A lead's table and an agent in a thread of its own, on loopback; their log is a file.
struct StrangerRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::info, path("log")};
  std::atomic<bool> stop{false}, ended{false};
  std::thread thread;
  std::unique_ptr<AgentTable> table;

  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  void open_table(std::int64_t epoch = 1) {
    auto opened =
        AgentTable::open({"key", path("address"), path("secret"), "127.0.0.1", epoch, false, {"n1", "n2"}}, clock, log);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    table = std::move(*opened);
  }
  void start_agent() {
    thread = std::thread([this] {
      (void)run_agent({path("address"), path("secret"), "n1", 600, "/bin/false", "attempt"}, clock, stop, log).ok();
      ended = true;
    });
  }
  bool sees(const std::function<bool()>& what, std::int64_t within_ms = 10'000) {
    for (const Deadline deadline(clock, testing::patience_ms(within_ms)); !deadline.passed(); clock.sleep_ms(5)) {
      if (table) table->look();
      if (what()) return true;
    }
    return false;
  }
  int lines_with(const std::string& words) const {
    const std::vector<std::string> lines = split(read_file(path("log")).value(), '\n');
    return static_cast<int>(std::count_if(
        lines.begin(), lines.end(), [&](const std::string& line) { return line.find(words) != std::string::npos; }));
  }
  ~StrangerRig() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
};

// Somebody else at an address: says one thing to each who comes, and listens to nothing.
struct SomebodyElse {
  Listener listener;
  std::vector<std::string> sayings;
  std::vector<FileDescriptor> taken;

  explicit SomebodyElse(std::vector<std::string> says)
      : listener(Listener::open(0, false).value()), sayings(std::move(says)) {}
  SomebodyElse(Listener at, std::vector<std::string> says) : listener(std::move(at)), sayings(std::move(says)) {}
  int look() {
    for (auto socket = listener.accept(); socket.ok() && socket->valid(); socket = listener.accept()) {
      const std::string& saying = sayings[taken.size() % sayings.size()];
      (void)::send(socket->get(), saying.data(), saying.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      taken.push_back(std::move(*socket));
    }
    return static_cast<int>(taken.size());
  }
};

std::string unsigned_frame(int version, int kind, const std::string& body, std::uint32_t bytes) {
  std::string frame = "LHW1";
  const auto put = [&](std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) frame += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  put(static_cast<std::uint64_t>(version), 2), put(static_cast<std::uint64_t>(kind), 2);
  put(bytes, 4), put(0, 4), put(1, 8), put(0, 8);
  return frame + body + std::string(wire_mac_bytes, '\0');
}

}  // namespace

TEST_CASE("trust: an agent that meets strangers where its lead should be stays, says so once, and finds its lead") {
  StrangerRig rig;
  REQUIRE(make_lead_secret(rig.path("secret")).ok());
  const std::string body = "{\"why\":", refused = R"({"why":"go","for_good":true})";
  auto other = std::make_unique<SomebodyElse>(std::vector<std::string>{
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + std::string(64, ' '),
      "SSH-2.0-OpenSSH_9.2p1\r\n" + std::string(64, ' '), "XXXX" + std::string(60, '\0'),
      unsigned_frame(9, 1, std::string(32, 'n'), 0) + "and no frame",
      unsigned_frame(1, 1, body, static_cast<std::uint32_t>(body.size())),
      unsigned_frame(wire_version, 1, "", 0x7F000000), unsigned_frame(wire_version, 1, body, 7),
      unsigned_frame(wire_version, 4, std::string(32, 'n') + refused, 28)});
  for (const std::string& path : {rig.path("address"), standby_address_path(rig.path("address"))})
    REQUIRE(write_lead_address(path, {"key", 1, "127.0.0.1", other->listener.port()}).ok());
  rig.start_agent();
  const int all = static_cast<int>(other->sayings.size());
  CHECK(rig.sees([&] { return other->look() > all || rig.ended; }, 30'000));
  CHECK_FALSE(rig.ended);
  CHECK(rig.lines_with("event=no_lead_there") == 1);
  other.reset();
  rig.open_table();
  CHECK(rig.sees([&] { return rig.table->connected() == 1; }));
}

TEST_CASE("trust: an agent that has lost its lead asks who has its port once, and turns to the later one of the file") {
  StrangerRig rig;
  rig.open_table();
  rig.start_agent();
  REQUIRE(rig.sees([&] { return rig.table->connected() == 1; }));
  auto kept = Listener::take(FileDescriptor(::dup(rig.table->descriptors().front())));
  REQUIRE(kept.ok());
  SomebodyElse at_the_port(std::move(*kept), {"XXXX"}), named({"nothing of ours"});
  REQUIRE(write_lead_address(rig.path("address"), {"key", 2, "127.0.0.1", named.listener.port()}).ok());
  rig.table.reset();
  CHECK(rig.sees([&] { return at_the_port.look(), named.look() > 0; }));
  CHECK(at_the_port.look() <= 1);
}

TEST_CASE("trust: strangers who say nothing, as many as come, keep no agent away") {
  StrangerRig rig;
  rig.open_table();
  const int port = rig.table->address().port;
  std::vector<FileDescriptor> silent;
  const auto another = [&] {
    auto socket = connect_to("127.0.0.1", port);
    if (socket.ok()) silent.push_back(std::move(*socket));
  };
  for (int i = 0; i < 80; ++i) another(), rig.table->look();
  rig.start_agent();
  CHECK(rig.sees([&] { return another(), rig.table->connected() == 1; }, 3'000));
  CHECK(rig.table->refused() > 0);
}

TEST_CASE("trust: the log of a thousand strangers is a line a minute, of printable letters") {
  StrangerRig rig;
  rig.open_table();
  const int port = rig.table->address().port;
  for (int i = 0; i < 1'000; ++i) {
    const std::string saying = i % 2 == 0 ? "\x1b]0;x\x07 event=forged\n" + std::string(20'000, 'x')
                                          : unsigned_frame(1, 2, "[\"" + std::string(900, '\x01'), 902);
    auto socket = connect_to("127.0.0.1", port);
    REQUIRE(socket.ok());
    (void)::send(socket->get(), saying.data(), saying.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    rig.table->look();
  }
  CHECK(rig.sees([&] { return rig.table->refused() >= 1'000; }, 20'000));
  const std::string text = read_file(rig.path("log")).value();
  CHECK(text.size() < 2'000);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(rig.lines_with("event=connection_refused") <= 2);
}

TEST_CASE("strangers: who has most connections loses the oldest of them, one from outside of the job first") {
  const auto dropped = [](const std::vector<Stranger>& strangers) { return stranger_to_drop(strangers); };
  CHECK(dropped({{"a", 5}}) == 0);
  CHECK(dropped({{"a", 3}, {"b", 2}, {"c", 4}}) == 1);
  CHECK(dropped({{"b", 1}, {"a", 7}, {"a", 3}, {"a", 5}}) == 2);
  CHECK(dropped({{"a", 7}, {"a", 3}, {"b", 9, true}}) == 2);
  CHECK(dropped({{"c", 7, true}, {"b", 9, true}, {"b", 8, true}, {"a", 1}}) == 2);
}

}  // namespace longhaul
