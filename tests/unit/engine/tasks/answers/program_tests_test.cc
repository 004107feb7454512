// Programs as a model may write them: right ones pass, and all others end and are distinguished.
#include "engine/tasks/answers/program_tests.h"

#include <doctest/doctest.h>

#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// With so much time that a busy machine judges alike; nothing where this host cannot run programs apart.
std::optional<ProgramTests> patient_tests(std::int64_t processor_s = 60, std::int64_t deadline_ms = 120'000) {
  ConfinedLimits limits = ProgramTests::usual_limits();
  limits.processor_s = processor_s, limits.deadline_ms = deadline_ms;
  auto made = ProgramTests::create("/usr/bin/python3", limits);
  if (made.ok()) return std::move(*made);
  MESSAGE("skipped: " << made.error().message());
  return std::nullopt;
}

std::string judged(const ProgramTests& tests, const std::string& program,
                   const std::string& test = "assert f(2) == 4") {
  const auto verdict = tests.judge({program, test});
  REQUIRE_MESSAGE(verdict.ok(), verdict.error().message());
  return verdict->passed ? "passed" : verdict->why;
}

}  // namespace

TEST_CASE("program tests: what is right passes, what is wrong says why") {
  const auto tests = patient_tests();
  if (!tests) return;
  CHECK(judged(*tests, "def f(x):\n    return x * 2") == "passed");
  CHECK(judged(*tests, "import math\ndef f(x):\n    print('é', math.pi)\n    return x ** 2") == "passed");
  CHECK(judged(*tests, "def f(x):\n    return x") == "AssertionError");
  CHECK(judged(*tests, "def f(x)\n    return x").find("SyntaxError") == 0);
  CHECK(judged(*tests, "def g(x):\n    return x").find("NameError") == 0);
  CHECK(judged(*tests, "def f(x):\n    return '''") != "passed");
  // What ends before its tests has not passed them.
  CHECK(judged(*tests, "import sys\nsys.exit(0)") == "it ended before its tests did");
  CHECK(judged(*tests, "import os\nos._exit(0)") == "it ended before its tests did");
  CHECK(judged(*tests, "import os\nos.kill(os.getpid(), 9)\nimport time\ntime.sleep(1)\nraise ValueError('alive')") !=
        "passed");
}

TEST_CASE("program tests: one that hangs, computes, prints gigabytes, takes memory or forks is ended") {
  const auto quick = patient_tests(2, 3'000);
  if (!quick) return;
  CHECK(judged(*quick, "import time\ntime.sleep(1000)") == "the deadline passed");
  const auto tests = patient_tests(1);
  const std::string computes = judged(*tests, "while True:\n    pass");
  CHECK(computes.find("signal") != std::string::npos);
  CHECK(judged(*tests, "while True:\n    print('x' * 1000000)") == "it printed too much");
  CHECK(judged(*tests, "x = bytearray(1 << 33)") == "MemoryError");
  CHECK(judged(*quick, "import os\nwhile True:\n    os.fork()") != "passed");
}

TEST_CASE("program tests: files of the host cannot be written, and its network cannot be reached") {
  const auto tests = patient_tests();
  if (!tests) return;
  CHECK(judged(*tests, "open('/var/tmp/longhaul-mark', 'w').write('x')") ==
        "OSError: [Errno 30] Read-only file system: '/var/tmp/longhaul-mark'");
  CHECK(!file_exists("/var/tmp/longhaul-mark"));
  CHECK(judged(*tests,
               "open('/tmp/mark', 'w').write('x')\ndef f(x):\n    return 2 * len(open('/tmp/mark').read()) + 2") ==
        "passed");
  CHECK(judged(*tests, "with open('/tmp/mark', 'w') as f:\n    while True:\n        f.write('x' * 1000000)") !=
        "passed");
  CHECK(judged(*tests, "import socket\nsocket.create_connection(('127.0.0.1', 22), 5)").find("OSError") == 0);
  CHECK(judged(*tests,
               "import os\nassert not [k for k in os.environ if 'LONGHAUL' in k or 'SLURM' in k]\n"
               "def f(x): return 4") == "passed");
}

TEST_CASE("program tests: many at once, in their order; an interpreter that is none is refused") {
  const auto tests = patient_tests();
  if (!tests) return;
  std::vector<TestedProgram> programs;
  for (int i = 0; i < 8; ++i) programs.push_back({format("x = {}", i), "assert x % 3 == 0"});
  std::size_t last = 0;
  const auto verdicts = tests->judge_all(programs, 3, [&](std::size_t done) { last = done; });
  REQUIRE(verdicts.ok());
  REQUIRE(verdicts->size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK((*verdicts)[i].passed == (i % 3 == 0));
  CHECK(last <= 8);
  CHECK(tests->judge_all({}, 3).value().empty());
  CHECK(ProgramTests::create("no-such-python").error().code == ErrorCode::not_found);
  CHECK(ProgramTests::create("/bin/true").error().message().find("does not run a program of one line") !=
        std::string::npos);
}

}  // namespace longhaul
