#include "worker/lead/agent_step.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "base/process.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// Until a program that ends at once has ended.
void settle() {
  ::usleep(300'000);
}

}  // namespace

TEST_CASE("agents that end before their time are started again, after ever longer pauses") {
  testing::Scratch scratch;
  ManualClock clock;
  Logger log("test", "");
  AgentStep step({"false"}, scratch.path() + "/agents.log", clock, log);
  REQUIRE(step.start().ok());
  std::vector<int> starts;
  for (int second = 0; second < 20; ++second) {
    clock.advance_ms(1'000);
    if (second < 8 || second % 7 == 6) settle();
    step.look();
    starts.push_back(step.starts());
  }
  CHECK(starts[0] == 1);  // not at once
  CHECK(starts[1] == 2);
  CHECK(starts[4] == 2);
  CHECK(starts[5] == 3);
  CHECK(starts.back() == 4);
}

TEST_CASE("agents that work for another lead outlive the one that has started them") {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log("test", "");
  const std::string pid_file = scratch.path() + "/pid";
  {
    AgentStep step(
        {"bash", "-c", "echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file + "; exec sleep 60"},
        scratch.path() + "/agents.log", clock, log);
    REQUIRE(step.start().ok());
    for (const Deadline deadline(clock, 10'000); !file_exists(pid_file); clock.sleep_ms(5)) REQUIRE(!deadline.passed());
    step.release();
  }
  const auto pid = static_cast<pid_t>(std::atoi(read_file(pid_file)->c_str()));
  REQUIRE(pid > 0);
  CHECK(poll_exit(pid).ok());
  CHECK_FALSE(poll_exit(pid)->has_value());
  ::kill(pid, SIGKILL);
  for (const Deadline deadline(clock, 10'000); !poll_exit(pid)->has_value(); clock.sleep_ms(5))
    REQUIRE(!deadline.passed());
}

TEST_CASE("agents that were told to end are given the time for it, and no longer") {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log("test", "");
  AgentStep step({"bash", "-c", "trap '' TERM; sleep 60"}, scratch.path() + "/agents.log", clock, log);
  REQUIRE(step.start().ok());
  const std::int64_t begun = clock.monotonic_ns();
  step.end();
  const double seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  CHECK(seconds > 3);
  CHECK(seconds < 15);
}
