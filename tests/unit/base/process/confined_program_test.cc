// Programs that nobody vouches for: what they may do, and that they end.
#include "base/process/confined_program.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

ConfinedProgram shell_program(const std::string& text, bool isolated = true) {
  ConfinedProgram program;
  program.argv = {"/bin/sh", "-s"};
  program.input = text;
  program.environment = {{"PATH", "/usr/bin:/bin"}, {"MARK", "inside"}};
  program.limits.deadline_ms = 20'000;
  program.isolated = isolated;
  return program;
}

// Whether this host has the namespaces; where it has not, the case says so and CI fails it.
bool can_isolate() {
  const auto tried = run_confined(shell_program("true\n"));
  if (tried.ok()) return true;
  MESSAGE("skipped: " << tried.error().message());
  return false;
}

ConfinedRun ran(const ConfinedProgram& program) {
  const auto made = run_confined(program);
  REQUIRE_MESSAGE(made.ok(), made.error().message());
  return *made;
}

// How long a process of this run sleeps: a mark that no other run on this host has. `number` is below 10.
std::string seconds_of(int number) {
  return format("357{}.{:010}", number, getpid());
}

// Processes of this host whose command line holds `mark`.
int processes_with(const std::string& mark) {
  int found = 0;
  const auto names = list_directory("/proc");
  REQUIRE(names.ok());
  for (const std::string& name : *names) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto line = read_file("/proc/" + name + "/cmdline");
    if (line.ok() && line->find(mark) != std::string::npos) ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("confined program: what it prints, how it ends, and nothing of the caller's environment") {
  if (!can_isolate()) return;
  ::setenv("LONGHAUL_TEST_SECRET", "secret", 1);
  const ConfinedRun run = ran(shell_program("echo \"$MARK:$LONGHAUL_TEST_SECRET\"; pwd; echo err >&2; exit 7\n"));
  ::unsetenv("LONGHAUL_TEST_SECRET");
  CHECK(run.end == ConfinedEnd::exited);
  CHECK(run.status.code == 7);
  CHECK(run.out == "inside:\n/tmp\n");
  CHECK(run.err == "err\n");
  const auto missing = run_confined({{"/no/such/program"}, "", {}, {}, true});
  REQUIRE(!missing.ok());
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message().find("/no/such/program") != std::string::npos);
}

TEST_CASE("confined program: one that waits, one that computes and one that prints without end are ended") {
  if (!can_isolate()) return;
  ConfinedProgram waits = shell_program("exec sleep " + seconds_of(1) + "\n");
  waits.limits.deadline_ms = 300;
  CHECK(ran(waits).end == ConfinedEnd::deadline);
  CHECK(processes_with(seconds_of(1)) == 0);
  ConfinedProgram computes = shell_program("while :; do :; done\n");
  computes.limits.processor_s = 1;
  const ConfinedRun killed = ran(computes);
  CHECK(killed.end == ConfinedEnd::exited);
  CHECK(killed.status.code >= 128);  // SIGXCPU or SIGKILL
  ConfinedProgram prints = shell_program("exec yes\n");
  prints.limits.output_bytes = 10'000;
  const ConfinedRun printed = ran(prints);
  CHECK(printed.end == ConfinedEnd::output);
  CHECK(printed.out.size() >= 10'000);
  CHECK(printed.out.size() < 30'000);
  // A first process that ends takes those with it that it left behind, in sessions of their own too.
  const ConfinedRun left =
      ran(shell_program(format("setsid sleep {} & sleep {} & exit 0\n", seconds_of(2), seconds_of(3))));
  CHECK(left.status.code == 0);
  CHECK(processes_with(seconds_of(2)) + processes_with(seconds_of(3)) == 0);
}

TEST_CASE("confined program: one that forks without end is ended with all that it made, at the bound of processes") {
  if (!can_isolate()) return;
  ConfinedProgram bomb = shell_program("f() { sleep " + seconds_of(4) + " & f & wait; }\nf\n");
  bomb.limits.deadline_ms = 500;
  bomb.limits.processes = 12;
  const ConfinedRun run = ran(bomb);
  CHECK(processes_with(seconds_of(4)) == 0);
  if (!limits_not_enforced().empty()) return;
  CHECK(run.err.find("ork") != std::string::npos);  // "Cannot fork"
}

TEST_CASE("confined program: it writes nowhere but in its own /tmp, which ends with it, and that is bounded") {
  if (!can_isolate()) return;
  char outside[] = "/var/tmp/longhaul-test-XXXXXX";
  REQUIRE(::mkdtemp(outside) != nullptr);
  REQUIRE(::chmod(outside, 0777) == 0);
  char inside[] = "/tmp/longhaul-test-XXXXXX";
  REQUIRE(::mkdtemp(inside) != nullptr);
  const ConfinedRun run =
      ran(shell_program(format("echo x > {}/file && echo outside\n"
                               "ls {} 2>/dev/null && echo seen\n"
                               "echo x > /tmp/longhaul-left && echo kept\n"
                               "ls /root /home /run | grep -v : | grep -c .\n"
                               "ls /dev | tr '\\n' ' '\n",
                               outside, inside)));
  CHECK(run.out == "kept\n0\nnull urandom zero ");
  CHECK(run.err.find("Read-only file system") != std::string::npos);
  CHECK(!file_exists(std::string(outside) + "/file"));
  CHECK(!file_exists("/tmp/longhaul-left"));
  REQUIRE(remove_tree(outside).ok());
  REQUIRE(remove_tree(inside).ok());
  ConfinedProgram fills =
      shell_program("for i in 1 2 3 4; do head -c 600000 /dev/zero > f$i || echo full; done; cat f* | wc -c\n");
  fills.limits.files_bytes = 1 << 20;
  const ConfinedRun filled = ran(fills);
  CHECK(filled.out.find("full") != std::string::npos);
  CHECK(std::atoll(filled.out.substr(filled.out.rfind("full\n") + 5).c_str()) <= 1 << 20);
}

TEST_CASE("confined program: no network, no other processes, no memory beyond its bound, no rights") {
  if (!can_isolate()) return;
  const ConfinedRun run =
      ran(shell_program("tail -n +3 /proc/net/dev | grep -v lo: | grep -c :\n"
                        "cat /proc/net/route 2>/dev/null | grep -c 0\n"
                        "ls -d /proc/[0-9]* 2>/dev/null | wc -l\n"
                        "id -u\n"
                        "grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t ' | tr '\\n' ' '\n"));
  const std::vector<std::string> lines = split(run.out, '\n');
  REQUIRE(lines.size() >= 4);
  CHECK(lines[0] == "0");
  CHECK(lines[1] == "0");
  CHECK(std::atoi(lines[2].c_str()) <= 4);
  CHECK(lines[3] != "0");
  if (lines.size() > 4 && !lines[4].empty())  // a /proc of its own could be mounted
    CHECK(lines[4] == "CapEff:0000000000000000 NoNewPrivs:1 ");
  ConfinedProgram large = shell_program("x=$(head -c 300000000 /dev/zero | tr '\\0' 'x'); echo ${#x}\n");
  large.limits.memory_bytes = 64 << 20;
  const ConfinedRun refused = ran(large);
  CHECK(refused.out.find("300000000") == std::string::npos);
}

TEST_CASE("confined program: by limits alone it ends at its deadline with its group") {
  ConfinedProgram waits = shell_program(format("sleep {} & exec sleep {}\n", seconds_of(5), seconds_of(6)), false);
  waits.limits.deadline_ms = 300;
  CHECK(ran(waits).end == ConfinedEnd::deadline);
  // By limits alone nobody waits for those that the first process left behind: the kernel ends them a moment later.
  SystemClock clock;
  const Deadline patience(clock, 10'000);
  while (processes_with(seconds_of(5)) > 0 && !patience.passed()) clock.sleep_ms(2);
  CHECK(processes_with(seconds_of(5)) + processes_with(seconds_of(6)) == 0);
  CHECK(ran(shell_program("exit 3\n", false)).status.code == 3);
}

}  // namespace longhaul
