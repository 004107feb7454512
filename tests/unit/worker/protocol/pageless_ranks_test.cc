// A rank that has no page yet: its wrapper is kept from making one by its log, a pipe that nobody reads.
#include "worker/protocol/pageless_ranks.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/process.h"
#include "tests/support/scratch.h"
#include "worker/agent/rank_pages.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {
namespace {

class HeldRank {
 public:
  HeldRank(const std::string& folder, int rank) : log_(rank_log_path(folder, rank)) {
    REQUIRE(::mkfifo(log_.c_str(), 0600) == 0);
    SpawnSpec spec;
    spec.argv = {parent_path(own_program_path()) + "/longhaul-worker",
                 "rank",
                 "--log-dir",
                 folder,
                 "--beat-dir",
                 folder,
                 "--",
                 "sleep",
                 "60"};
    spec.environment = {{"PMIX_RANK", std::to_string(rank)}};
    spec.environment_removed = {"OMPI_*"};
    spec.dies_with_starter = true;
    const auto started = spawn(spec);
    REQUIRE(started.ok());
    pid = *started;
  }
  ~HeldRank() {
    ::kill(pid, SIGKILL);
    while (!poll_exit(pid)->has_value()) ::usleep(2'000);
  }
  void go_on() { reader_.reset(::open(log_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); }

  pid_t pid = -1;

 private:
  std::string log_;
  FileDescriptor reader_;
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
  CHECK(seen.state == ProcessState::running);
  ::kill(three.pid, SIGSTOP);
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
  HeldRank three(scratch.path(), 3);
  RankPages pages;
  pages.watch(1, scratch.path(), {3});
  CHECK(pages.look(clock).empty());
  ::kill(three.pid, SIGSTOP);
  const auto is = [&](ProcessState state, std::int64_t pid) {
    return [&pages, &clock, state, pid] {
      const auto seen = pages.look(clock);
      return seen.size() == 1 && seen.front().state == state && seen.front().beat.pid == pid;
    };
  };
  CHECK(comes_to(clock, is(ProcessState::stopped, three.pid)));
  CHECK(!file_exists(beat_page_path(scratch.path(), 3)));
  ::kill(three.pid, SIGCONT);
  three.go_on();
  REQUIRE(comes_to(clock, [&] { return file_exists(beat_page_path(scratch.path(), 3)); }));
  const auto runs = is(ProcessState::running, three.pid);
  CHECK(comes_to(clock, [&] { return runs() && pages.page(3) != nullptr; }));  // it runs before its page can be read
}

}  // namespace longhaul
