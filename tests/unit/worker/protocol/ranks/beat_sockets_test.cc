// Sockets of a node's ranks: what a program says in text stands on its page, also after it has lost its connection; who
// is another user, floods, or says nonsense, changes nothing for anybody else.
#include "worker/protocol/ranks/beat_sockets.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/ranks/process_watch.h"

using namespace longhaul;

namespace {

struct BeatSocketRig {
  longhaul::testing::Scratch scratch;
  Logger log{"test", "", LogLevel::error};
  SystemClock clock;
  BeatSockets sockets{log};
  std::string folder = scratch.path();

  void open(const std::vector<int>& ranks = {0}) { REQUIRE(sockets.open(folder, ranks).ok()); }
  std::string path(int rank = 0) const { return beat_socket_path(folder, rank); }
  BeatSnapshot page(int rank = 0) {
    const auto opened = HeartbeatPage::open(beat_page_path(folder, rank));
    REQUIRE(opened.ok());
    return opened->snapshot();
  }
  bool has_page(int rank = 0) const { return HeartbeatPage::open(beat_page_path(folder, rank)).ok(); }
  template <class Condition>
  void look_until(Condition&& condition) {
    const Deadline deadline(clock, 10'000);
    for (sockets.look(); !condition(); sockets.look()) {
      REQUIRE(!deadline.passed());
      clock.sleep_ms(1);
    }
  }
};

struct BeatClient {
  FileDescriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  explicit BeatClient(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  bool say(const std::string& text) {
    return ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  std::string heard() {
    char buffer[8192];
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, 0);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
  }
};

}  // namespace

TEST_CASE("beat sockets: lines become stores on the page of their rank, of which there is none before") {
  BeatSocketRig rig;
  rig.open({3, 4});
  rig.sockets.look();
  CHECK(!rig.has_page(3));
  struct stat info{};
  REQUIRE(::stat(rig.path(3).c_str(), &info) == 0);
  CHECK(S_ISSOCK(info.st_mode));
  CHECK((info.st_mode & 0777) == 0600);
  BeatClient client(rig.path(3));
  REQUIRE(client.say("section forward\nstep 12\nenqueued dp\n"));
  rig.sockets.look();
  const BeatSnapshot seen = rig.page(3);
  CHECK(seen.rank == 3);
  CHECK(seen.pid == ::getpid());
  CHECK(seen.section == "forward");
  CHECK(seen.step == 12);
  CHECK(seen.communicators.size() == 1);
  CHECK(rig.sockets.counts(3).lines == 3);
  CHECK(!rig.has_page(4));
  CHECK(rig.sockets.descriptors().size() == 3);
}

TEST_CASE("beat sockets: nonsense is refused with its line and counted, and the connection goes on") {
  BeatSocketRig rig;
  rig.open();
  BeatClient client(rig.path());
  REQUIRE(client.say("step 1\nstpe 2\n" + std::string(500, 'x') + "\nstep 3\n"));
  rig.sockets.look();
  CHECK(rig.page().step == 3);
  CHECK(rig.sockets.counts(0).lines == 2);
  CHECK(rig.sockets.counts(0).refused == 2);
  const std::string heard = client.heard();
  CHECK(heard.find("refused 2 no such keyword; there are step section") == 0);
  CHECK(heard.find("\nrefused 3 a line has at most 127 bytes\n") != std::string::npos);
  std::string nonsense;
  for (int i = 0; i < 1000; ++i) nonsense += "nonsense\n";
  REQUIRE(client.say(nonsense));  // who never reads is answered a few times, not more
  rig.look_until([&] { return rig.sockets.counts(0).refused == 1002; });
  REQUIRE(client.say("step 4\n"));
  rig.sockets.look();
  CHECK(rig.page().step == 4);
  CHECK(client.heard().size() < 4096);
}

TEST_CASE("beat sockets: orders are sent to who is there and to who comes, and what is done is known") {
  BeatSocketRig rig;
  rig.open();
  BeatClient client(rig.path());
  REQUIRE(client.say("step 1\n"));
  rig.sockets.look();
  auto page = HeartbeatPage::open(beat_page_path(rig.folder, 0));
  REQUIRE(page.ok());
  page->order_checkpoint();
  page->order_stop_after(500);
  rig.sockets.look();
  CHECK(client.heard() == "order 1 stop_after 500\norder 2 checkpoint\n");
  rig.sockets.look();
  CHECK(client.heard() == "");
  BeatClient again(rig.path());  // not done yet: sent again
  rig.sockets.look();
  CHECK(again.heard() == "order 1 stop_after 500\norder 2 checkpoint\n");
  REQUIRE(client.say("done 2\n"));
  rig.sockets.look();
  CHECK(page->orders_obeyed() == 2);
  BeatClient later(rig.path());
  rig.sockets.look();
  CHECK(later.heard() == "order 2 stop_after 500\n");

  BeatSockets next(rig.log);  // an agent that was started again
  rig.sockets.close();
  REQUIRE(next.open(rig.folder, {0}).ok());
  BeatClient reconnected(rig.path());
  next.look();
  CHECK(reconnected.heard() == "order 2 stop_after 500\n");
}

TEST_CASE("beat sockets: a program that floods and never reads holds up neither the look nor another rank") {
  BeatSocketRig rig;
  rig.open({0, 1});
  BeatClient flood(rig.path(0)), quiet(rig.path(1));
  rig.sockets.look();
  auto page = HeartbeatPage::open(beat_page_path(rig.folder, 0));
  REQUIRE(page.ok());
  std::string many;
  while (many.size() < 60'000) many += "progress\n";
  std::int64_t longest_ns = 0;
  for (int round = 0; round < 50; ++round) {
    (void)flood.say(many);
    (void)flood.say(many);
    page->order_checkpoint();  // answers that nobody takes
    const std::int64_t start = rig.clock.monotonic_ns();
    rig.sockets.look();
    longest_ns = std::max(longest_ns, rig.clock.monotonic_ns() - start);
  }
  REQUIRE(quiet.say("step 9\n"));
  rig.sockets.look();
  CHECK(rig.page(1).step == 9);
  CHECK(longest_ns < 5'000'000'000);
  MESSAGE("longest look at a flood: ", static_cast<double>(longest_ns) * 1e-6, " ms for at most 64 KiB");
}

TEST_CASE("beat sockets: a look at ranks that say nothing is short") {
  BeatSocketRig rig;
  std::vector<std::unique_ptr<BeatClient>> clients;
  rig.open({0, 1, 2, 3, 4, 5, 6, 7});
  for (int rank = 0; rank < 8; ++rank) clients.push_back(std::make_unique<BeatClient>(rig.path(rank)));
  rig.sockets.look();
  std::int64_t shortest_ns = 1'000'000'000;  // others share these cores
  for (int i = 0; i < 200; ++i) {
    const std::int64_t start = rig.clock.monotonic_ns();
    rig.sockets.look();
    shortest_ns = std::min(shortest_ns, rig.clock.monotonic_ns() - start);
  }
  MESSAGE("a look at eight quiet ranks: ", static_cast<double>(shortest_ns) * 1e-3, " us");
  CHECK(shortest_ns < 5'000'000);
}

TEST_CASE("beat sockets: the page names the process that is connected, then the program that had started it") {
  BeatSocketRig rig;
  rig.open();
  // A script that says each line through a program of its own: the script is the rank.
  SpawnSpec script;
  script.environment = {{beat_socket_variable, rig.path()}};
  script.argv = {"bash", "-c",
                 "python3 -c 'import os, socket; s = socket.socket(socket.AF_UNIX); "
                 "s.connect(os.environ[\"LONGHAUL_BEAT_SOCKET\"]); s.sendall(b\"step 1\\n\"); print(os.getpid(), "
                 "file=open(\"" +
                     rig.scratch.file("child") + "\", \"w\")); s.recv(1)'; exec sleep 60"};
  const auto pid = spawn(script);
  REQUIRE(pid.ok());
  rig.look_until([&] { return rig.has_page() && rig.page().step == 1 && file_exists(rig.scratch.file("child")); });
  CHECK(rig.page().pid != *pid);
  CHECK(process_state(rig.page().pid) == ProcessState::running);
  ::kill(static_cast<pid_t>(rig.page().pid), SIGKILL);
  rig.look_until([&] { return rig.page().pid == *pid; });
  CHECK(process_state(rig.page().pid) == ProcessState::running);
  ::kill(*pid, SIGKILL);
  rig.look_until([&] { return process_state(rig.page().pid) == ProcessState::ended; });
  CHECK(rig.page().pid == *pid);
  while (!poll_exit(*pid)->has_value()) rig.clock.sleep_ms(1);
}

TEST_CASE("beat sockets: another user is not served") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  BeatSocketRig rig;
  rig.open();
  REQUIRE(::chmod(rig.folder.c_str(), 0755) == 0);
  REQUIRE(::chmod(rig.path().c_str(), 0666) == 0);  // even where the file's mode would let it in
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = rig.path();
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(3);
    (void)!::write(socket.get(), "step 666\n", 9);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 0);
  rig.sockets.look();
  CHECK(rig.sockets.counts(0).strangers == 1);
  CHECK(!rig.has_page());
}

TEST_CASE("beat sockets: a path too long for a socket is shortened, a stale socket replaced, both removed at the end") {
  BeatSocketRig rig;
  rig.folder = rig.scratch.file(std::string(120, 'd'));
  REQUIRE(make_directories(rig.folder).ok());
  {
    const FileDescriptor stale(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(make_directories(parent_path(rig.path())).ok());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, rig.path().data(), rig.path().size());
    REQUIRE(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  rig.open();
  BeatClient client(rig.path());
  REQUIRE(client.say("step 2\n"));
  rig.sockets.look();
  CHECK(rig.page().step == 2);
  rig.open({0, 1});  // what is open stays as it is
  REQUIRE(client.say("step 3\n"));
  rig.sockets.look();
  CHECK(rig.page().step == 3);
  rig.sockets.close();
  CHECK(!file_exists(rig.path()));
  CHECK(!file_exists(parent_path(rig.path())));
  CHECK(rig.has_page());
}

TEST_CASE("beat sockets: a file in the way is not removed") {
  BeatSocketRig rig;
  REQUIRE(write_file_renamed(rig.path(), "mine").ok());
  const Status opened = rig.sockets.open(rig.folder, {0});
  REQUIRE(!opened.ok());
  CHECK(opened.error().what.find("is no socket") != std::string::npos);
  CHECK(*read_file(rig.path()) == "mine");
}

TEST_CASE("beat sockets: a fault is said once, to the program that connected last; without one nobody hears it") {
  BeatSocketRig rig;
  rig.open({0, 1});
  CHECK(!rig.sockets.say_fault(0, "LOCK_GIL"));
  BeatClient first(rig.path()), second(rig.path());
  REQUIRE(first.say("step 1\n"));
  REQUIRE(second.say("step 2\n"));
  rig.look_until([&] { return rig.has_page() && rig.sockets.counts(0).lines == 2; });
  CHECK(!rig.sockets.say_fault(1, "LOCK_GIL"));
  CHECK(rig.sockets.say_fault(0, "LOCK_GIL"));
  rig.sockets.look();
  CHECK(second.heard() == "fault LOCK_GIL\n");
  CHECK(first.heard().empty());
  CHECK(nobody_listens(1).error().message().find("no program of rank 1 is connected") != std::string::npos);
}
