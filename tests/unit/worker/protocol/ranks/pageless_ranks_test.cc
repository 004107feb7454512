// A rank that has no page yet: its wrapper is held at its first instruction, as a debugger would.
#include "worker/protocol/ranks/pageless_ranks.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/process/process.h"
#include "tests/support/scratch.h"
#include "worker/agent/rank_pages.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {
namespace {

class HeldRank {
 public:
  HeldRank(const std::string& folder, int rank) {
    const std::string program = parent_path(own_program_path()) + "/longhaul-worker", number = std::to_string(rank);
    const char* const words[] = {program.c_str(), "rank", "--log-dir", folder.c_str(), "--beat-dir",
                                 folder.c_str(),  "--",   "sleep",     "60",           nullptr};
    pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const char* other : launcher_rank_variables) ::unsetenv(other);
      ::setenv("PMIX_RANK", number.c_str(), 1);
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::execv(words[0], const_cast<char* const*>(words));
      ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSTOPPED(status));  // by the exec
  }
  ~HeldRank() {
    ::kill(pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status)) {
    }
  }
  HeldRank(const HeldRank&) = delete;
  HeldRank& operator=(const HeldRank&) = delete;
  // Held no longer, and stopped instead.
  void stop() const { REQUIRE(::ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP) == 0); }

  pid_t pid = -1;
};

template <class Condition>
bool comes_to(const Clock& clock, Condition&& condition, std::int64_t within_ms = 10'000) {
  for (const Deadline deadline(clock, within_ms); !deadline.passed(); ::usleep(5'000))
    if (condition()) return true;
  return false;
}

}  // namespace

TEST_CASE("pageless ranks: a process that has made no page yet is seen with its state, and only those asked for are") {
  const testing::Scratch scratch;
  SystemClock clock;
  const HeldRank three(scratch.path(), 3);
  PagelessRanks ranks(20);
  CHECK(ranks.look(scratch.path(), {3}, clock).empty());  // it may have just begun
  REQUIRE(comes_to(clock, [&] { return ranks.look(scratch.path(), {2, 3}, clock).size() == 1; }));
  RankReport seen = ranks.look(scratch.path(), {2, 3}, clock).front();
  CHECK(seen.beat.rank == 3);
  CHECK(seen.beat.pid == three.pid);
  CHECK(seen.beat.section == beat_start);
  CHECK(seen.beat.step == -1);
  CHECK(seen.state == ProcessState::traced);
  three.stop();
  CHECK(comes_to(clock,
                 [&] { return ranks.look(scratch.path(), {2, 3}, clock).front().state == ProcessState::stopped; }));
  ::kill(three.pid, SIGKILL);  // whoever waits for its end sees it
  CHECK(comes_to(clock, [&] {
    const auto& now = ranks.look(scratch.path(), {2, 3}, clock);
    return now.size() == 1 && now.front().state == ProcessState::ended;
  }));
  CHECK(ranks.look(scratch.path(), {2}, clock).empty());
  PagelessRanks of_another_launch(20);
  CHECK(!comes_to(clock, [&] { return !of_another_launch.look(scratch.path() + "/2", {3}, clock).empty(); }, 200));
}

TEST_CASE("pageless ranks: an agent reports a rank that stands before its page, and its page once it is there") {
  const testing::Scratch scratch;
  SystemClock clock;
  const HeldRank three(scratch.path(), 3);
  RankPages pages;
  pages.watch(1, scratch.path(), {3});
  CHECK(pages.look(clock).empty());
  three.stop();
  const auto is = [&](ProcessState state, std::int64_t pid) {
    return [&pages, &clock, state, pid] {
      const auto seen = pages.look(clock);
      return seen.size() == 1 && seen.front().state == state && seen.front().beat.pid == pid;
    };
  };
  CHECK(comes_to(clock, is(ProcessState::stopped, three.pid)));
  CHECK(!file_exists(beat_page_path(scratch.path(), 3)));
  ::kill(three.pid, SIGCONT);
  REQUIRE(comes_to(clock, [&] { return file_exists(beat_page_path(scratch.path(), 3)); }));
  const auto runs = is(ProcessState::running, three.pid);
  CHECK(comes_to(clock, [&] { return runs() && pages.page(3) != nullptr; }));  // it runs before its page can be read
}

}  // namespace longhaul
