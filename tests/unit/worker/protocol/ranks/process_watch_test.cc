#include "worker/protocol/ranks/process_watch.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "base/process/process.h"
#include "base/system/clock.h"

using namespace longhaul;

namespace {

pid_t start_watched_sleeper() {
  SpawnSpec sleeper;
  sleeper.argv = {"sleep", "60"};
  sleeper.dies_with_starter = true;
  const auto pid = spawn(sleeper);
  REQUIRE(pid.ok());
  return *pid;
}

bool becomes(ProcessWatch& watch, pid_t pid, ProcessState wanted) {
  SystemClock clock;
  for (const Deadline deadline(clock, 5'000); !deadline.passed(); clock.sleep_ms(2))
    if (watch.look(pid) == wanted) return true;
  return false;
}

void end_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (!poll_exit(pid)->has_value()) ::usleep(2'000);
}

}  // namespace

TEST_CASE("process watch: a process that is stopped, goes on, ends and is reaped") {
  ProcessWatch watch;
  CHECK(watch.look(0) == ProcessState::none);
  const pid_t pid = start_watched_sleeper();
  CHECK(watch.look(pid) == ProcessState::running);
  ::kill(pid, SIGSTOP);
  CHECK(becomes(watch, pid, ProcessState::stopped));
  ::kill(pid, SIGCONT);
  CHECK(becomes(watch, pid, ProcessState::running));
  ::kill(pid, SIGKILL);
  CHECK(becomes(watch, pid, ProcessState::ended));  // a zombie is nobody to wait for
  end_and_reap(pid);
  CHECK(watch.look(pid) == ProcessState::ended);
}

TEST_CASE("process watch: the kernel reports the end at once, and of a process that is stopped nothing") {
  ProcessWatch watch;
  const pid_t pid = start_watched_sleeper();
  REQUIRE(watch.look(pid) == ProcessState::running);
  pollfd end{watch.end_descriptor(), POLLIN, 0};
  if (end.fd < 0) {  // a kernel before Linux 5.3: looks alone have to find it
    end_and_reap(pid);
    return;
  }
  ::kill(pid, SIGSTOP);
  CHECK(becomes(watch, pid, ProcessState::stopped));
  CHECK(::poll(&end, 1, 0) == 0);
  ::kill(pid, SIGKILL);
  CHECK(::poll(&end, 1, 5'000) == 1);
  CHECK(watch.look(pid) == ProcessState::ended);
  CHECK(!watch.alive());
  CHECK(watch.end_descriptor() == -1);  // else whoever waits for it would never sleep again
  end_and_reap(pid);
  CHECK(watch.look(pid) == ProcessState::ended);
  const pid_t other = start_watched_sleeper();
  CHECK(watch.look(other) == ProcessState::running);
  CHECK(watch.end_descriptor() >= 0);
  end_and_reap(other);
}

TEST_CASE("process watch: a process that a debugger holds is not one that was stopped") {
  ProcessWatch watch;
  const pid_t pid = start_watched_sleeper();
  REQUIRE(watch.look(pid) == ProcessState::running);
  if (::ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0) {
    CHECK(becomes(watch, pid, ProcessState::traced));
    ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  } else {
    MESSAGE("this machine lets no process look into another");
  }
  end_and_reap(pid);
}

TEST_CASE("process watch: another process than before is another question") {
  ProcessWatch watch;
  const pid_t first = start_watched_sleeper(), second = start_watched_sleeper();
  CHECK(watch.look(first) == ProcessState::running);
  ::kill(second, SIGSTOP);
  CHECK(becomes(watch, second, ProcessState::stopped));
  end_and_reap(second);
  CHECK(watch.look(second) == ProcessState::ended);
  CHECK(watch.look(first) == ProcessState::running);
  end_and_reap(first);
}
