#include "worker/lead/agents/agent_step.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/process/process.h"
#include "tests/support/scratch.h"
#include "worker/launch/agent_launcher.h"

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

TEST_CASE("agents that were asked to end are given the time for it, and no longer") {
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

TEST_CASE("agents that are refused the job's GPUs are started without them at once, and stay so") {
  testing::Scratch scratch;
  ManualClock clock;
  Logger log("test", "");
  const std::string arguments = scratch.path() + "/arguments";
  // Slurm's srun up to 23.02.4 beside SLURM_GPUS_PER_NODE, and any that cannot share them.
  AgentStep step({"bash", "-c", "echo \"$1\" >> " + arguments + "; [ \"$1\" = --gres=none ] && exec sleep 60; exit 1",
                  "srun", "--gpus-per-node=4"},
                 scratch.path() + "/agents.log", clock, log);
  REQUIRE(step.start().ok());
  CHECK(step.asks_for_gpus());
  settle();
  step.look();
  CHECK_FALSE(step.asks_for_gpus());
  CHECK(step.starts() == 2);
  settle();
  CHECK(read_file(arguments).value() == "--gpus-per-node=4\n--gres=none\n");
}

TEST_CASE("agents that wait for the job's GPUs are started without them; those that have come are let be") {
  for (const bool came : {false, true}) {
    CAPTURE(came);
    testing::Scratch scratch;
    ManualClock clock;
    Logger log("test", "");
    AgentStep step({"bash", "-c", "exec sleep 60", "srun", "--gres=gpu:a100:4"}, scratch.path() + "/agents.log", clock,
                   log);
    REQUIRE(step.start().ok());
    step.look(!came);
    clock.advance_ms(25'000);
    step.look();
    settle();
    step.look();
    CHECK(step.asks_for_gpus() == came);
    CHECK(step.starts() == (came ? 1 : 2));
    step.end();
  }
}

TEST_CASE("without GPUs: whatever asked for them asks for none; a launcher that asks for none has no other form") {
  const std::vector<std::string> by_node = {"srun", "--overlap", "--gpus-per-node=h100:4", "--mem=0"};
  const std::vector<std::string> by_gres = {"srun", "--overlap", "--gres=gpu:4", "--mem=0"};
  const std::vector<std::string> none = {"srun", "--overlap", "--gres=none", "--mem=0"};
  CHECK(launcher_without_gpus(by_node) == none);
  CHECK(launcher_without_gpus(by_gres) == none);
  CHECK(launcher_without_gpus({"srun", "--overlap"}).empty());
  CHECK(launcher_without_gpus(none).empty());
}
