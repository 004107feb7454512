// Stacks of real processes: one that hangs in a known function, one that is stopped, one that has ended, one with eight
// threads, a Python program, one that may not be looked into. Whatever happens to who looks, the target goes on.
#include "worker/stacks/stack_dumps.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "tests/support/seed.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/ranks/process_watch.h"
#include "worker/stacks/stack_text.h"

// Names that a dump must show; extern "C" and with an effect after the call, so that no compiler folds them away.
extern "C" {
std::atomic<std::int64_t>* stacks_test_counter = nullptr;
__attribute__((noinline)) void stacks_test_innermost() {
  for (;;) {
    stacks_test_counter->fetch_add(1);
    ::usleep(1000);
  }
}
__attribute__((noinline)) void stacks_test_hangs_here() {
  stacks_test_innermost();
  stacks_test_counter->store(0);
}
}

using namespace longhaul;

namespace {

constexpr bool with_libdw = LONGHAUL_HAVE_LIBDW;

// A child of this program that does something until it is killed, and counts meanwhile in memory that we see.
class StackChild {
 public:
  explicit StackChild(const std::function<void()>& does = stacks_test_hangs_here) {
    void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    counter_ = stacks_test_counter = new (shared) std::atomic<std::int64_t>(0);
    pid = ::fork();
    if (pid == 0) {
      does();
      ::_exit(0);
    }
    while (counter_->load() == 0) ::usleep(1000);
  }
  ~StackChild() {
    end();
    ::munmap(counter_, 4096);
  }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }
  bool counts_on() const {
    const std::int64_t before = counter_->load();
    for (int i = 0; i < 2000 && counter_->load() < before + 3; ++i) ::usleep(1000);
    return counter_->load() >= before + 3;
  }
  pid_t pid = -1;

 private:
  std::atomic<std::int64_t>* counter_;
};

struct StackRig {
  longhaul::testing::Scratch scratch;
  SystemClock clock;
  std::string program = parent_path(own_program_path()) + "/longhaul-worker";
  std::string folder = stacks_folder(scratch.path());

  std::string dump(pid_t pid, std::int64_t deadline_ms = 20'000) {
    REQUIRE(dump_stacks(program, folder, {{7, pid}}, clock, deadline_ms).ok());
    const auto text = read_file(stack_path(folder, 7));
    REQUIRE(text.ok());
    return *text;
  }
};

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("stacks: a process that hangs in a function is shown there, and hangs on there") {
  StackRig rig;
  StackChild child;
  std::string text = rig.dump(child.pid);
  // It sleeps nearly always; on a busy machine the look at its system call may fall between two sleeps.
  for (int again = 0; again < 9 && text.find("nanosleep(0x") == std::string::npos; ++again) text = rig.dump(child.pid);
  CAPTURE(text);
  CHECK(text.find(format("rank 7 on {}, process {}", host_name(), child.pid)) == 0);
  CHECK(text.find("unit_worker") != std::string::npos);
  CHECK(text.find("thread " + std::to_string(child.pid)) != std::string::npos);
  CHECK(text.find("nanosleep(0x") != std::string::npos);
  if (with_libdw) {
    const std::size_t inner = text.find("stacks_test_innermost+0x"), outer = text.find("stacks_test_hangs_here+0x");
    CHECK(inner != std::string::npos);
    CHECK(outer != std::string::npos);
    CHECK(inner < outer);
    CHECK(text.find("stack_dumps_test.cc:") != std::string::npos);
    CHECK(text.find("main+0x") != std::string::npos);
  } else {
    CHECK(text.find("no native stacks: this build has no libdw") != std::string::npos);
  }
  CHECK(process_state(child.pid) == ProcessState::running);
  CHECK(child.counts_on());
}

TEST_CASE("stacks: a process that is stopped is shown as it is, and stays stopped") {
  StackRig rig;
  StackChild child;
  ::kill(child.pid, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(child.pid, &status, WUNTRACED) == child.pid);
  const std::string text = rig.dump(child.pid);
  CAPTURE(text);
  CHECK(text.find("T (stopped by a signal)") != std::string::npos);
  if (with_libdw) CHECK(text.find("stacks_test_hangs_here") != std::string::npos);
  ::usleep(20'000);
  CHECK(process_state(child.pid) == ProcessState::stopped);
  ::kill(child.pid, SIGCONT);
  CHECK(child.counts_on());
}

TEST_CASE("stacks: a process that has ended, or is not known, has a file that says so") {
  StackRig rig;
  StackChild child;
  const pid_t pid = child.pid;
  child.end();
  CHECK(rig.dump(pid).find(format("process {} has ended", pid)) != std::string::npos);
  CHECK(rig.dump(0).find("no heartbeat and no launcher says which process it is") != std::string::npos);
}

TEST_CASE("stacks: all eight threads are shown with their names") {
  StackRig rig;
  StackChild child([] {
    std::vector<std::thread> threads;
    for (int i = 1; i < 8; ++i)
      threads.emplace_back([i] {
        ::pthread_setname_np(::pthread_self(), format("helper-{}", i).c_str());
        stacks_test_hangs_here();
      });
    while (stacks_test_counter->load() < 30) ::usleep(1000);
    stacks_test_hangs_here();
  });
  ::usleep(50'000);
  const std::string text = rig.dump(child.pid);
  CAPTURE(text);
  CHECK(count_of(text, "\n  thread ") == 8);
  for (int i = 1; i < 8; ++i) CHECK(text.find(format("helper-{}:", i)) != std::string::npos);
  if (with_libdw) CHECK(count_of(text, "stacks_test_hangs_here+0x") == 8);
  CHECK(child.counts_on());
}

TEST_CASE("stacks: of a script the program that it waits for is shown, too, and of a Python program native frames") {
  StackRig rig;
  SpawnSpec script;
  script.argv = {"bash", "-c", "python3 -c 'import time; time.sleep(600)'; true"};
  script.own_group = true;
  const auto pid = spawn(script);
  REQUIRE(pid.ok());
  std::string text;
  const Deadline deadline(rig.clock, 20'000);
  do text = rig.dump(*pid);
  while (text.find("nanosleep(0x") == std::string::npos && !deadline.passed());
  CAPTURE(text);
  CHECK(count_of(text, "\nprocess ") >= 2);  // more where python3 is a script itself
  CHECK(text.find("time.sleep(600)") != std::string::npos);
  if (with_libdw) CHECK(text.find("_PyEval_") != std::string::npos);
  ::kill(-*pid, SIGKILL);
  while (!poll_exit(*pid)->has_value()) ::usleep(1000);
}

TEST_CASE("stacks: a process that somebody else traces is shown without its stack, and why") {
  if (!with_libdw) {
    MESSAGE("skipped: no libdw here, so no stacks");
    return;
  }
  StackRig rig;
  StackChild child;
  const StackChild tracer([&] {
    if (::ptrace(PTRACE_SEIZE, child.pid, nullptr, nullptr) != 0) ::_exit(1);
    stacks_test_hangs_here();
  });
  const std::string text = rig.dump(child.pid);
  CAPTURE(text);
  CHECK(text.find(format("cannot be traced: process {} traces it already", tracer.pid)) != std::string::npos);
  CHECK(text.find("thread " + std::to_string(child.pid)) != std::string::npos);
}

TEST_CASE("stacks: another user's process is shown without its stack, and why") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  const StackRig rig;
  const StackChild child;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const std::string text = stack_text({"rank 7", child.pid, 5'000}, rig.clock);
    ::_exit(::write(ends[1], text.data(), text.size()) > 0 ? 0 : 3);
  }
  ::close(ends[1]);
  std::string text(65536, '\0');
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  ::waitpid(stranger, nullptr, 0);
  REQUIRE(n > 0);
  text.resize(static_cast<std::size_t>(n));
  CAPTURE(text);
  CHECK(text.find("thread " + std::to_string(child.pid)) != std::string::npos);
  if (with_libdw)
    CHECK((text.find("another user") != std::string::npos || text.find("ptrace_scope") != std::string::npos));
}

TEST_CASE("stacks: a helper that hangs is ended, and the file holds what is known without it") {
  StackRig rig;
  StackChild child;
  rig.program = rig.scratch.file("hangs");
  REQUIRE(write_file_atomic(rig.program, "#!/bin/sh\nexec sleep 600\n", 0755).ok());
  const std::int64_t start = rig.clock.monotonic_ns();
  std::string text = rig.dump(child.pid, 100);
  CAPTURE(text);
  CHECK(rig.clock.monotonic_ns() - start < 10'000'000'000);
  CHECK(text.find("no stacks: looking at it ended with killed by signal 9") != std::string::npos);
  CHECK(text.find("thread " + std::to_string(child.pid)) != std::string::npos);
  rig.program = "/nowhere/longhaul-worker";
  text = rig.dump(child.pid);
  CHECK(text.find("no stacks: cannot start /nowhere/longhaul-worker") != std::string::npos);
}

TEST_CASE("stacks: a target goes on when who looks at it is killed at any moment") {
  const StackRig rig;
  StackChild child;
  const std::uint64_t seed = testing::seed(11);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20; ++i) {
    SpawnSpec spec;
    spec.argv = {rig.program, "stacks", "--pid", std::to_string(child.pid), "--output", rig.scratch.file("out")};
    const auto helper = spawn(spec);
    REQUIRE(helper.ok());
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    ::kill(*helper, SIGKILL);
    while (!poll_exit(*helper)->has_value()) ::usleep(100);
    REQUIRE(child.counts_on());
  }
  CHECK(process_state(child.pid) == ProcessState::running);
}

TEST_CASE("stacks: many ranks at once have a file each, and what was there before is kept") {
  StackRig rig;
  const StackChild child;
  std::vector<StackTarget> targets;
  for (int rank = 0; rank < 12; ++rank) targets.push_back({rank, rank == 5 ? 0 : child.pid});
  StackDumps dumps(rig.program, rig.clock);
  REQUIRE(dumps.begin(rig.folder, targets).ok());
  CHECK(dumps.under_way() == 11);                            // the one without a process has its file already
  REQUIRE(dumps.begin(rig.folder, {{11, child.pid}}).ok());  // still waits for its turn: no second one
  CHECK(dumps.under_way() <= 11);
  const Deadline deadline(rig.clock, 60'000);
  while (!dumps.look()) {
    REQUIRE(!deadline.passed());
    rig.clock.sleep_ms(2);
  }
  CHECK(list_directory(rig.folder)->size() == 12);
  REQUIRE(set_earlier_stacks_aside(rig.scratch.path()).ok());
  CHECK(!file_exists(rig.folder));
  CHECK(list_directory(rig.folder + ".1")->size() == 12);
  REQUIRE(set_earlier_stacks_aside(rig.scratch.path()).ok());  // nothing to do
  REQUIRE(make_directories(rig.folder).ok());
  REQUIRE(set_earlier_stacks_aside(rig.scratch.path()).ok());
  CHECK(file_exists(rig.folder + ".2"));
}
