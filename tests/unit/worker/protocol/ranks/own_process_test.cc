#include "worker/protocol/ranks/own_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "worker/agent/rank_pages.h"
#include "worker/protocol/ranks/process_watch.h"

namespace longhaul {
namespace {

using StartedWith = std::vector<std::pair<std::string, std::string>>;

// A program that sleeps and is none of ours: nobody who started it is left above it.
struct ForeignProcess {
  pid_t pid = -1;
  explicit ForeignProcess(StartedWith environment = {}) {
    SpawnSpec sleeper;
    sleeper.argv = {"sleep", "60"};
    sleeper.environment = std::move(environment);
    sleeper.environment_removed = {"LONGHAUL_*"};
    sleeper.detached = true;
    const auto started = spawn(sleeper);
    REQUIRE(started.ok());
    pid = *started;
    REQUIRE(has_environment());
  }
  ~ForeignProcess() { ::kill(pid, SIGKILL); }
  ForeignProcess(const ForeignProcess&) = delete;
  ForeignProcess& operator=(const ForeignProcess&) = delete;
  // The kernel shows the environment of a new program a moment after it has closed the descriptors by which spawn()
  // sees that it runs.
  bool has_environment() const {
    SystemClock clock;
    for (const Deadline deadline(clock, 5'000); !deadline.passed(); clock.sleep_ms(2))
      if (const auto shown = read_file(longhaul::format("/proc/{}/environ", pid)); shown.ok() && !shown->empty())
        return true;
    return false;
  }
  bool ends() const {
    SystemClock clock;
    for (const Deadline deadline(clock, 5'000); !deadline.passed(); clock.sleep_ms(2))
      if (const ProcessState now = process_state(pid); now == ProcessState::ended || now == ProcessState::none)
        return true;
    return false;
  }
  bool runs() const { return process_state(pid) == ProcessState::running; }
};

}  // namespace

TEST_CASE("trust: a process is the job's if it was started below us or carries a mark of the job, and no other is") {
  const JobMarks marks{"pretrain.2.9f", "/dev/shm/longhaul-1"};
  SpawnSpec child;
  child.argv = {"sh", "-c", "sleep 60 & echo $! > /dev/null; wait"};
  child.own_group = true;
  const pid_t below = spawn(child).value();
  CHECK(OwnProcess::of(below, JobMarks{}).ok());
  ::kill(-below, SIGKILL);
  while (!poll_exit(below)->has_value()) ::usleep(2'000);
  CHECK(OwnProcess::of(below, JobMarks{}).error().code == ErrorCode::not_found);

  const ForeignProcess plain, other_job(StartedWith{{"LONGHAUL_ATTEMPT_KEY", "pretrain.2.9f0"}});
  for (const ForeignProcess* stranger : {&plain, &other_job}) {
    const auto refused = OwnProcess::of(stranger->pid, marks);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK(refused.error().what.find("none of this job") != std::string::npos);
  }
  for (const std::int64_t number : {std::int64_t{1}, std::int64_t{::getpid()}})
    CHECK(OwnProcess::of(number, marks).error().code == ErrorCode::invalid_input);
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40})
    CHECK(OwnProcess::of(number, marks).error().code == ErrorCode::not_found);

  for (const auto& mark :
       StartedWith{{"LONGHAUL_ATTEMPT_KEY", "pretrain.2.9f"}, {"LONGHAUL_BEAT", "/dev/shm/longhaul-1/beat-3"}}) {
    CAPTURE(mark.first);
    const ForeignProcess rank(StartedWith{mark});
    const auto own = OwnProcess::of(rank.pid, marks);
    REQUIRE(own.ok());
    CHECK_FALSE(OwnProcess::of(rank.pid, JobMarks{}).ok());
    CHECK(own->signal(SIGKILL).ok());
    CHECK(rank.ends());
    CHECK(own->signal(SIGKILL).ok());  // it has ended: nothing else is hit
  }
  CHECK(plain.runs());
  CHECK(other_job.runs());
  CHECK(OwnProcess().signal(SIGTERM).error().code == ErrorCode::not_found);
}

TEST_CASE("trust: a page that names a process of somebody else's job gets it neither a signal nor a look") {
  const testing::Scratch scratch;
  const SystemClock clock;
  const ForeignProcess victim;
  const ForeignProcess rank(StartedWith{{"LONGHAUL_ATTEMPT_KEY", "key"}});
  REQUIRE(HeartbeatPage::create(beat_page_path(scratch.path(), 0), 0, victim.pid).ok());
  REQUIRE(HeartbeatPage::create(beat_page_path(scratch.path(), 1), 1, rank.pid).ok());
  RankPages pages("key");
  pages.watch(1, scratch.path(), {0, 1});
  CHECK(pages.look(clock).size() == 2);
  CHECK(pages.own_pid(0) == 0);
  CHECK(pages.own_pid(1) == rank.pid);
  CHECK(pages.signal(0, SIGKILL).error().code == ErrorCode::invalid_input);
  CHECK(pages.signal(2, SIGKILL).error().code == ErrorCode::not_found);
  CHECK(pages.signal(1, SIGKILL).ok());
  CHECK(rank.ends());
  CHECK(victim.runs());
}

}  // namespace longhaul
