#include "base/process/process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

ExitStatus wait_exit(pid_t pid, std::int64_t deadline_ms = 10'000) {
  SystemClock clock;
  const Deadline deadline(clock, deadline_ms);
  for (;;) {
    const auto exited = poll_exit(pid);
    REQUIRE(exited.ok());
    if (*exited) return **exited;
    REQUIRE_FALSE(deadline.passed());
    clock.sleep_ms(2);
  }
}

// Waits until a file has text; what a program writes there is small enough to come at once.
std::string wait_text(const std::string& path) {
  SystemClock clock;
  const Deadline deadline(clock, 10'000);
  for (;;) {
    const auto text = read_file(path);
    if (text.ok() && ends_with(*text, "\n")) return trim(*text);
    REQUIRE_FALSE(deadline.passed());
    clock.sleep_ms(2);
  }
}

bool gone_within(const ProcessId& id, std::int64_t ms) {
  SystemClock clock;
  const Deadline deadline(clock, ms);
  while (process_alive(id)) {
    if (deadline.passed()) return false;
    clock.sleep_ms(2);
  }
  return true;
}

SpawnSpec shell(const std::string& script) {
  SpawnSpec spec;
  spec.argv = {"sh", "-c", script};
  return spec;
}

}  // namespace

TEST_CASE("a missing program is an error of the start") {
  SpawnSpec spec;
  spec.argv = {"no-such-program-anywhere"};
  for (const bool detached : {false, true}) {
    spec.detached = detached;
    const auto started = spawn(spec);
    REQUIRE_FALSE(started.ok());
    CHECK(started.error().code == ErrorCode::not_found);
    CHECK(started.error().what.find("no-such-program-anywhere") != std::string::npos);
  }
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("data"), "x").ok());
  spec.argv = {scratch.file("data")};
  CHECK(spawn(spec).error().code == ErrorCode::io);  // no permission to run it
}

TEST_CASE("a log file or folder that cannot be opened is named, not the program") {
  const testing::Scratch scratch;
  SpawnSpec spec = shell("true");
  spec.stdout_path = scratch.file("none/out");
  const auto no_log = spawn(spec);
  REQUIRE_FALSE(no_log.ok());
  CHECK(no_log.error().what.find("none/out") != std::string::npos);
  spec = shell("true");
  spec.working_directory = scratch.file("absent");
  const auto no_folder = spawn(spec);
  REQUIRE_FALSE(no_folder.ok());
  CHECK(no_folder.error().what.find("absent") != std::string::npos);
}

TEST_CASE("exit codes and signals are distinguished") {
  const ExitStatus three = wait_exit(spawn(shell("exit 3")).value());
  CHECK(three.code == 3);
  CHECK(three.text() == "exit code 3");
  const ExitStatus killed = wait_exit(spawn(shell("kill -9 $$")).value());
  CHECK(killed.signal == 9);
  CHECK(killed.code == -1);
  CHECK(killed.text() == "killed by signal 9 (Killed)");
  CHECK(wait_exit(spawn(shell("true")).value()).success());
}

TEST_CASE("poll_exit does not wait, and a child is reaped once") {
  const pid_t pid = spawn(shell("exec sleep 30")).value();
  CHECK_FALSE(poll_exit(pid).value());
  ::kill(pid, SIGKILL);
  CHECK(wait_exit(pid).signal == SIGKILL);
  CHECK(poll_exit(pid).error().code == ErrorCode::not_found);
}

TEST_CASE("environment, folder and output files are as asked") {
  const testing::Scratch scratch;
  SpawnSpec spec = shell("echo \"$A|${PATH_LIKE:-unset}\"; pwd; echo problem >&2; read x || echo no input");
  ::setenv("PATH_LIKE", "inherited", 1);
  spec.environment = {{"A", "with space"}};
  spec.environment_removed = {"PATH_LIKE"};
  spec.working_directory = scratch.path();
  spec.stdout_path = scratch.file("out");
  spec.stderr_path = scratch.file("err");
  CHECK(wait_exit(spawn(spec).value()).success());
  ::unsetenv("PATH_LIKE");
  CHECK(read_file(scratch.file("out")).value() == "with space|unset\n" + scratch.path() + "\nno input\n");
  CHECK(read_file(scratch.file("err")).value() == "problem\n");
}

TEST_CASE("a child inherits no descriptor but the first three") {
  const testing::Scratch scratch;
  const FileDescriptor leaky(::open("/dev/null", O_RDONLY));  // no O_CLOEXEC, as in many a library
  REQUIRE(leaky.get() > 2);
  SpawnSpec spec =
      shell("ls /proc/self/fd | wc -l; test -e /proc/self/fd/" + std::to_string(leaky.get()) + " && echo leaked");
  spec.stdout_path = scratch.file("out");
  (void)wait_exit(spawn(spec).value());
  CHECK(read_file(scratch.file("out")).value().find("leaked") == std::string::npos);
}

TEST_CASE("a process is known by its pid and its start time") {
  const pid_t pid = spawn(shell("exec sleep 30")).value();
  const ProcessId id = identify_process(pid).value();
  CHECK(id.pid == pid);
  CHECK(id.start_ticks > 0);
  CHECK(process_alive(id));
  CHECK_FALSE(process_alive({pid, id.start_ticks + 1}));  // the pid was used again
  CHECK_FALSE(process_alive({}));
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);  // now a zombie
  CHECK_FALSE(process_alive(id));
  CHECK(wait_exit(pid).signal == SIGKILL);
  CHECK(identify_process(pid).error().code == ErrorCode::not_found);
}

TEST_CASE("a detached program outlives its starter and its starter's group") {
  const testing::Scratch scratch;
  const pid_t starter = ::fork();
  if (starter == 0) {
    ::setpgid(0, 0);
    SpawnSpec spec = shell("exec sleep 30");
    spec.detached = true;
    const auto pid = spawn(spec);
    if (pid.ok()) (void)write_file_atomic(scratch.file("pid"), std::to_string(*pid) + "\n").ok();
    ::kill(0, SIGKILL);  // the whole group of the starter
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(starter, &status, 0) == starter);
  CHECK(WIFSIGNALED(status));
  const pid_t pid = std::stoi(wait_text(scratch.file("pid")));
  const ProcessId id = identify_process(pid).value();
  CHECK(process_alive(id));
  CHECK(::getsid(pid) != ::getsid(0));
  ::kill(pid, SIGKILL);
  CHECK(gone_within(id, 5000));
}

TEST_CASE("trust: a program that writes without end is ended, and the error says so") {
  const testing::Scratch scratch;
  SpawnSpec spec = shell("echo $$ > " + scratch.file("pid") + "; exec yes");
  const auto output = run_captured(spec, 60'000, 1 << 20);
  REQUIRE_FALSE(output.ok());
  CHECK(output.error().code == ErrorCode::unavailable);
  CHECK(output.error().what == "sh wrote more than 1.0 MiB");
  CHECK_FALSE(identify_process(std::stoi(read_file(scratch.file("pid")).value())).ok());
  const auto errors = run_captured(shell("yes >&2"), 60'000, 1 << 20);
  REQUIRE_FALSE(errors.ok());
  CHECK(errors.error().code == ErrorCode::unavailable);
}

TEST_CASE("a program's output comes back whole, with its exit") {
  const RunOutput output =
      run_program({"sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 4"}, 20'000)
          .value();
  CHECK(output.status.code == 4);
  CHECK(split(output.out, '\n').size() == 3001);
  CHECK(ends_with(output.out, "line 2999\n"));
  CHECK(run_program({"no-such-program-anywhere"}, 1000).error().code == ErrorCode::not_found);
}

TEST_CASE("a program that passes its deadline is ended with all its group") {
  const testing::Scratch scratch;
  const std::string script = "sleep 30 & echo $! > " + shell_quote(scratch.file("pid")) + "; wait";
  SystemClock clock;
  const std::int64_t before = clock.monotonic_ns();
  const auto output = run_program({"sh", "-c", script}, 500);
  REQUIRE_FALSE(output.ok());
  CHECK(output.error().code == ErrorCode::timeout);
  CHECK((clock.monotonic_ns() - before) / 1'000'000 < 5000);
  const pid_t grandchild = std::stoi(wait_text(scratch.file("pid")));
  const auto id = identify_process(grandchild);
  CHECK((!id.ok() || gone_within(*id, 5000)));
}

TEST_CASE("a program that never stops writing is ended at its deadline as well") {
  CHECK(run_program({"sh", "-c", "while :; do echo x; done"}, 300).error().code == ErrorCode::timeout);
}

TEST_CASE("output ends with the program, not with a stranger that holds the pipe") {
  SystemClock clock;
  const std::int64_t before = clock.monotonic_ns();
  const RunOutput output = run_program({"sh", "-c", "sleep 20 & echo $!"}, 10'000).value();
  CHECK(output.status.success());
  CHECK((clock.monotonic_ns() - before) / 1'000'000 < 5000);
  ::kill(std::stoi(output.out), SIGKILL);
}

TEST_CASE("a captured program has its own environment, and its stderr comes back") {
  SpawnSpec spec;
  spec.argv = {"sh", "-c", "echo \"$LH_A|$LH_B|$LH_KEPT|$LH_NEW|${HOME:+home}\"; echo oh >&2"};
  ::setenv("LH_A", "1", 1);
  ::setenv("LH_B", "2", 1);
  ::setenv("LH_KEPT", "3", 1);
  spec.environment_removed = {"LH_*"};
  spec.environment_kept = {"LH_KEPT"};
  spec.environment = {{"LH_NEW", "4"}, {"HOME", "/"}};
  const RunOutput output = run_captured(spec, 10'000).value();
  for (const char* name : {"LH_A", "LH_B", "LH_KEPT"}) ::unsetenv(name);
  CHECK(output.out == "||3|4|home\n");
  CHECK(output.err == "oh\n");
}

TEST_CASE("a child may take descriptors of its starter as stdin and stdout") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  SpawnSpec spec;
  spec.argv = {"sh", "-c", "read line; echo \"got $line\""};
  spec.stdin_fd = spec.stdout_fd = ends[1];
  const pid_t pid = spawn(spec).value();
  ::close(ends[1]);
  REQUIRE(::write(ends[0], "this\n", 5) == 5);
  std::string text;
  for (char c; ::read(ends[0], &c, 1) == 1;) text += c;  // up to its end: nobody else holds the other side
  CHECK(text == "got this\n");
  ::close(ends[0]);
  int status = 0;
  CHECK(::waitpid(pid, &status, 0) == pid);
}

TEST_CASE("the program knows its host and its own path") {
  CHECK_FALSE(host_name().empty());
  CHECK(own_program_path().find("unit_base") != std::string::npos);
}

TEST_CASE("a process that ends while it is identified is not there, whenever that is") {
  // Others ask while it is reaped, so that some find it between opening and reading.
  for (int tries = 0; tries < 300; ++tries) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(0);
    std::thread reaper([child] { ::waitpid(child, nullptr, 0); });
    while (identify_process(child).ok()) {
    }
    for (int more = 0; more < 20; ++more) CHECK_FALSE(identify_process(child).ok());
    reaper.join();
  }
}

TEST_CASE("process: process 1 of a container starts programs that die with it") {
  constexpr int not_allowed = 77;
  const pid_t outside = ::fork();
  REQUIRE(outside >= 0);
  if (outside == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(not_allowed);
    const pid_t first = ::fork();
    if (first < 0) ::_exit(not_allowed);
    if (first == 0) {
      if (::getpid() != 1) ::_exit(not_allowed);
      SpawnSpec spec;
      spec.argv = {"sh", "-c", "exit 5"};
      spec.dies_with_starter = true;
      const auto pid = spawn(spec);
      int status = 0;
      if (!pid.ok() || ::waitpid(*pid, &status, 0) != *pid) ::_exit(3);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
    }
    int status = 0;
    (void)::waitpid(first, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 6);
  }
  const ExitStatus end = wait_exit(outside);
  if (end.code == not_allowed) {
    MESSAGE("skipped: this system lets nobody make a namespace of processes");
    return;
  }
  CHECK(end.code == 5);
}

}  // namespace longhaul
