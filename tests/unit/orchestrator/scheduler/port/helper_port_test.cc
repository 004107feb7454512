// The port's side of the protocol, against a stand-in that dies, hangs and talks nonsense on cue.
#include "orchestrator/scheduler/port/helper_port.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <tuple>

#include "base/text/text.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// A shell script in the helper's place: `cases` are its answers to what it reads ($line; $id is the request's id).
std::string stand_in(const testing::Scratch& scratch, const std::string& cases) {
  const std::string path = scratch.file("stand-in");
  const std::string text = format(
      "#!/bin/sh\necho start >> {0}/starts\n"
      "while IFS= read -r line; do\n"
      "  id=${{line##*\\\"id\\\":}}; id=${{id%%,*}}; id=${{id%%\\}}*}}\n"
      "  case $line in\n"
      "  *'\"op\":\"hello\"'*) echo \"{{\\\"id\\\":$id,\\\"protocol\\\":1,\\\"library\\\":\\\"9.9.9\\\"}}\" ;;\n"
      "  {1}\n  esac\ndone\n",
      scratch.path(), cases);
  REQUIRE(write_file_atomic(path, text, 0755).ok());
  return path;
}

int starts(const testing::Scratch& scratch) {
  const auto text = read_file(scratch.file("starts"));
  return text.ok() ? static_cast<int>(split(*text, '\n').size()) - 1 : 0;
}

std::vector<SlurmSubmission> submissions(int count) {
  std::vector<SlurmSubmission> made;
  for (int i = 0; i < count; ++i) made.push_back({format("/job{}.sbatch", i), {"x"}, {{"comment", format("k{}", i)}}});
  return made;
}

constexpr const char* answer_submissions =
    "*'\"op\":\"submit\"'*) echo \"{\\\"id\\\":$id,\\\"job\\\":\\\"$((1000 + id))\\\"}\" ;;";

int open_descriptors() {
  return static_cast<int>(list_directory("/proc/self/fd")->size());
}

}  // namespace

TEST_CASE("helper: answers of a window come back in order, over several windows") {
  const testing::Scratch scratch;
  HelperPort port(stand_in(scratch, answer_submissions), {.deadline_ms = 20'000, .window = 7});
  const auto ids = port.submit(submissions(30));
  REQUIRE(ids.size() == 30);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    REQUIRE(ids[i].ok());
    CHECK(*ids[i] == std::to_string(1002 + i));
  }
  CHECK(starts(scratch) == 1);
  CHECK(port.description() == "longhaul-slurm (libslurm 9.9.9)");
}

TEST_CASE(
    "helper: one that dies within a window has answered what it answered; the rest is unknown, and not repeated") {
  const testing::Scratch scratch;
  const std::string log = scratch.file("submitted");
  HelperPort port(stand_in(scratch, format("*k3*) echo dying on purpose >&2; kill -9 $$ ;;\n"
                                           "  *'\"op\":\"submit\"'*) echo $id >> {}; echo "
                                           "\"{{\\\"id\\\":$id,\\\"job\\\":\\\"7\\\"}}\" ;;",
                                           log)),
                  {.deadline_ms = 20'000, .window = 5});
  const auto ids = port.submit(submissions(12));
  REQUIRE(ids.size() == 12);
  for (int i = 0; i < 3; ++i) CHECK(ids[static_cast<std::size_t>(i)].ok());
  for (std::size_t i = 3; i < 12; ++i) {
    REQUIRE_FALSE(ids[i].ok());
    CHECK(ids[i].error().code == ErrorCode::unavailable);
  }
  CHECK(ids[3].error().what.find("killed by signal 9") != std::string::npos);
  CHECK(ids[3].error().what.find("dying on purpose") != std::string::npos);
  CHECK(ids[11].error().what.find("not attempted") != std::string::npos);
  CHECK(split(*read_file(log), '\n').size() == 4);  // three lines: nothing was sent twice
  CHECK(port.submit(submissions(2))[1].ok());       // a new one is started
  CHECK(starts(scratch) == 2);
}

TEST_CASE("helper: one that hangs is ended at the deadline, and a new one answers the next request") {
  const testing::Scratch scratch;
  HelperPort port(
      stand_in(
          scratch,
          "*'\"op\":\"jobs\"'*) sleep 30 ;;\n  *'\"op\":\"cancel\"'*) echo \"{\\\"id\\\":$id,\\\"ok\\\":true}\" ;;"),
      {.deadline_ms = 400, .window = 5});
  const auto jobs = port.jobs();
  REQUIRE_FALSE(jobs.ok());
  CHECK(jobs.error().code == ErrorCode::unavailable);
  CHECK(port.helper_pid() == -1);
  CHECK(port.cancel("5").ok());
  CHECK(starts(scratch) == 2);
}

TEST_CASE("helper: a question is asked again when the helper dies; an order never is") {
  const testing::Scratch scratch;
  const std::string flag = scratch.file("flag");
  const std::string die_once = format("if [ ! -e {0} ]; then touch {0}; exit 9; fi;", flag);
  HelperPort port(stand_in(scratch, format("*'\"op\":\"jobs\"'*) {0} echo \"{{\\\"id\\\":$id,\\\"row\\\":{{\\\"id\\\":"
                                           "\\\"5\\\",\\\"state\\\":\\\"RUNNING\\\"}}}}\"; echo "
                                           "\"{{\\\"id\\\":$id,\\\"ok\\\":true}}\" ;;\n"
                                           "  *'\"op\":\"requeue\"'*) exit 9 ;;",
                                           die_once)),
                  {.deadline_ms = 20'000, .window = 5});
  const auto jobs = port.jobs();
  REQUIRE(jobs.ok());
  REQUIRE(jobs->size() == 1);
  CHECK(jobs->front().state == "RUNNING");
  CHECK(starts(scratch) == 2);
  const Status requeued = port.requeue("5", false);
  CHECK(requeued.error().code == ErrorCode::unavailable);
  CHECK(requeued.error().what.find("exit code 9") != std::string::npos);
  CHECK(starts(scratch) == 2);
}

TEST_CASE("helper: nonsense ends it; errors arrive with code, message and hint") {
  const testing::Scratch scratch;
  HelperPort port(
      stand_in(scratch,
               "*'\"op\":\"jobs\"'*) echo 'this is no JSON' ;;\n"
               "  *'\"op\":\"nodes\"'*) echo '{\"id\":4711,\"ok\":true}' ;;\n"
               "  *'\"op\":\"cancel\"'*) echo \"{\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":\\\"not_found\\\","
               "\\\"what\\\":\\\"no such job\\\",\\\"hint\\\":\\\"look\\\"}}\" ;;"),
      {.deadline_ms = 20'000, .window = 5});
  CHECK(port.jobs().error().what.find("nobody asked") != std::string::npos);
  CHECK(port.nodes().error().code == ErrorCode::unavailable);
  const Status cancelled = port.cancel("5");
  CHECK(cancelled.error().code == ErrorCode::not_found);
  CHECK(cancelled.error().what == "no such job");
  CHECK(cancelled.error().hint == "look");
}

TEST_CASE("helper: what slurmctld or a filter of the site refuses means what its message means, as from sbatch") {
  const std::vector<std::tuple<const char*, int, Refusal>> answers = {
      {"error: lua: not today: Unspecified error", -1, Refusal::unknown},
      {"error: submissions are disabled until noon: Unspecified error", -1, Refusal::busy},
      {"error: you are not allowed to use it: Unspecified error", -1, Refusal::never},
      {"error: QOSMaxSubmitJobPerUserLimit: Job violates accounting/QOS policy", 2050, Refusal::limit},
      {"Invalid account or account/partition combination specified", 2045, Refusal::never},
      {"Connection refused", 111, Refusal::silence}};
  for (const auto& [words, number, means] : answers) {
    CAPTURE(words);
    const testing::Scratch scratch;
    HelperPort port(
        stand_in(scratch, format("*'\"op\":\"submit\"'*) echo \"{{\\\"id\\\":$id,\\\"error\\\":{{"
                                 "\\\"code\\\":\\\"{}\\\",\\\"what\\\":\\\"cannot submit: {} "
                                 "(Slurm error {})\\\"}}}}\" ;;",
                                 means == Refusal::silence ? "unavailable" : "invalid_input", words, number)),
        {.deadline_ms = 20'000, .window = 5});
    const auto ids = port.submit(submissions(1));
    REQUIRE_FALSE(ids[0].ok());
    CHECK(std::string(to_string(refusal_in(ids[0].error()))) == to_string(means));
    CHECK(ids[0].error().what.find(words) != std::string::npos);
  }
}

TEST_CASE("helper: a missing one, one of another protocol and one for another libslurm say so") {
  const testing::Scratch scratch;
  HelperPort missing("/nowhere/longhaul-slurm");
  CHECK(missing.start().error().code == ErrorCode::not_found);
  CHECK_FALSE(missing.submit(submissions(2))[1].ok());
  REQUIRE(
      write_file_atomic(scratch.file("old"), "#!/bin/sh\nread line\necho '{\"id\":1,\"protocol\":99}'\nsleep 9\n", 0755)
          .ok());
  HelperPort old(scratch.file("old"));
  CHECK(old.start().error().code == ErrorCode::unsupported);
  REQUIRE(
      write_file_atomic(scratch.file("other"), "#!/bin/sh\necho was built for libslurm 1.0 >&2; exit 3\n", 0755).ok());
  HelperPort other(scratch.file("other"));
  CHECK(other.start().error().code == ErrorCode::unsupported);
}

TEST_CASE("helper: no descriptor, no zombie and no process is left, however often it dies") {
  const testing::Scratch scratch;
  const std::string program = stand_in(scratch, "*'\"op\":\"requeue\"'*) exit 9 ;;");
  pid_t last = -1;
  const int before = open_descriptors();
  {
    HelperPort port(program, {.deadline_ms = 20'000, .window = 5});
    for (int i = 0; i < 20; ++i) CHECK_FALSE(port.requeue("5", false).ok());
    REQUIRE(port.start().ok());
    last = port.helper_pid();
    CHECK(open_descriptors() <= before + 2);
  }
  CHECK(open_descriptors() == before);
  CHECK(::kill(last, 0) != 0);
  int status = 0;
  CHECK(::waitpid(-1, &status, WNOHANG) <= 0);
}

TEST_CASE("helper: jobs have the environment that the run keeps, and Slurm is reached as it is from here") {
  const testing::Scratch scratch;
  const std::string seen = scratch.file("environment");
  const std::string program = stand_in(
      scratch, format("*'\"op\":\"cancel\"'*) env > {}; echo \"{{\\\"id\\\":$id,\\\"ok\\\":true}}\" ;;", seen));
  ::setenv("LONGHAUL_TEST_OF_THE_LEAD", "1", 1);
  ::setenv("SLURM_JWT", "token", 1);
  HelperPort port(program, {.deadline_ms = 20'000, .environment = {"MINE=1", "PATH=/usr/bin:/bin"}});
  CHECK(port.cancel("5").ok());
  ::unsetenv("LONGHAUL_TEST_OF_THE_LEAD");
  ::unsetenv("SLURM_JWT");
  const auto text = read_file(seen);
  REQUIRE(text.ok());
  const auto has = [&](const char* entry) { return ("\n" + *text).find(format("\n{}\n", entry)) != std::string::npos; };
  CHECK(has("MINE=1"));
  CHECK(has("SLURM_JWT=token"));
  CHECK_FALSE(has("LONGHAUL_TEST_OF_THE_LEAD=1"));
}
