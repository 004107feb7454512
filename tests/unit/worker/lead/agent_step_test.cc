#include "worker/lead/agent_step.h"

#include <doctest/doctest.h>
#include <unistd.h>

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
