#include "base/error/crash_context.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/error/result.h"
#include "base/text/text.h"
#include "tests/support/failure_lines.h"

namespace longhaul {
namespace {

using testing::failure_lines;

}  // namespace

TEST_CASE("a broken invariant is reported with what the thread is at, from the outermost inwards") {
  int step = 3;
  const std::string said = failure_lines([&] {
    const CrashContext rank([] { return std::string("rank 1 of 4"); });
    {
      const CrashContext over([] { return std::string("a save"); });
    }
    const CrashContext at([&] { return format("step {}", step); });
    step = 120;
    LH_ASSERT(step == 0, "cudaMemcpyAsync: refused");
  });
  CHECK(said.find("broken invariant: step == 0 [cudaMemcpyAsync: refused] at rank 1 of 4; step 120\n") !=
        std::string::npos);
}

TEST_CASE("where nobody has said anything, and on other threads, nothing is added") {
  CHECK(CrashContext::text().empty());
  const CrashContext here([] { return std::string("here"); });
  std::string elsewhere = "?";
  std::thread([&] { elsewhere = CrashContext::text(); }).join();
  CHECK(elsewhere.empty());
  CHECK(CrashContext::text() == "here");
}

TEST_CASE("one that breaks an invariant while it speaks does not speak again") {
  const std::string said = failure_lines([] {
    const CrashContext here([]() -> std::string {
      LH_ASSERT(false, "inner");
      return {};
    });
    LH_ASSERT(false, "outer");
  });
  CHECK(said.find("[inner]\n") != std::string::npos);
  CHECK(said.find("outer") == std::string::npos);
}

}  // namespace longhaul
