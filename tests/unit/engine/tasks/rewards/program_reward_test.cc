// Programs in answers: which part of an answer is one, and what it is worth by the tests of its row.
#include "engine/tasks/rewards/program_reward.h"

#include <doctest/doctest.h>

#include <optional>

namespace longhaul {
namespace {

// With so much time that a busy machine judges alike; nothing where this host cannot run programs apart.
std::optional<ProgramReward> patient_reward(int& between) {
  ConfinedLimits limits = ProgramTests::usual_limits();
  limits.processor_s = 60, limits.deadline_ms = 120'000;
  auto tests = ProgramTests::create("/usr/bin/python3", limits);
  if (tests.ok()) return ProgramReward(std::move(*tests), 2, [&between] { ++between; });
  MESSAGE("skipped: " << tests.error().message());
  return std::nullopt;
}

}  // namespace

TEST_CASE("the program of an answer is its first fenced block, or all of it") {
  CHECK(program_of_answer("x = 1\ny = 2") == "x = 1\ny = 2");
  CHECK(program_of_answer("Here:\n```python\nx = 1\n\ny = 2\n```\nor\n```\nz = 3\n```\n") == "x = 1\n\ny = 2\n");
  CHECK(program_of_answer("```\nx = '```'\n") == "x = '```'\n\n");  // cut before its end
  CHECK(program_of_answer("```") == "");
  CHECK(program_of_answer("") == "");
}

TEST_CASE("an answer is worth 1 where its program passes the tests of its row, and a row without tests is a problem") {
  int between = 0;
  const auto reward = patient_reward(between);
  if (!reward) return;
  const std::string test = "assert f(2) == 4";
  const std::vector<Reward> rewards =
      reward->judge(std::vector<RewardQuestion>{{"?", "def f(x):\n    return 2 * x", test},
                                                {"?", "It is\n```python\ndef f(x): return x ** 2\n```\nso.", test},
                                                {"?", "def f(x):\n    return x", test},
                                                {"?", "def f(x): return 4", 4},
                                                {"?", "It is\n    def f(x): return 4", test},
                                                {"?", "import sys; sys.exit(0)", test}});
  REQUIRE(rewards.size() == 6);
  CHECK(rewards[0].value == 1);
  CHECK(rewards[1].value == 1);
  CHECK(rewards[2].value == 0);
  CHECK(!rewards[3].value);
  CHECK(rewards[3].problem.find("no text of tests but integer") != std::string::npos);
  CHECK(rewards[4].value == 0);
  CHECK(rewards[5].value == 0);
  CHECK(between > 0);
}

}  // namespace longhaul
