// Ranks that do not go away: whose fault that is.
#include "worker/lead/teardown.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

std::vector<HostTeardown> nodes(int count, bool blocked = false) {
  std::vector<HostTeardown> all;
  for (int i = 0; i < count; ++i) all.push_back({"n" + std::to_string(i + 1), 8, blocked});
  return all;
}

}  // namespace

TEST_CASE("teardown: it is over when all are gone, and nobody is left within a minute") {
  CHECK(judge_teardown(0, {}, 100).over);
  CHECK(judge_teardown(100, {{"n1", 0, false}}, 100).over);
  for (const std::int64_t ms : {0, 10'000, 59'000}) {
    const TeardownView view = judge_teardown(ms, nodes(1), 100);
    CHECK(!view.over);
    CHECK(view.leave.empty());
    CHECK(view.waits_for.empty());
  }
}

TEST_CASE("teardown: a node whose ranks alone run on after the deadline is left, and accused") {
  const TeardownView view = judge_teardown(60'000, nodes(1), 100);
  CHECK(view.over);
  CHECK(view.accused);
  CHECK(view.leave == std::vector<std::string>{"n1"});
  TeardownOptions quick;
  quick.leave_after_ms = 500;
  CHECK(judge_teardown(500, nodes(1), 4, quick).over);
}

TEST_CASE("teardown: ranks that are blocked in the kernel are the storage's fault, however few they are") {
  const TeardownView view = judge_teardown(90'000, nodes(1, true), 100);
  CHECK(!view.over);
  CHECK(view.leave.empty());
  CHECK(view.waits_for ==
        "8 ranks on 1 of 100 nodes (n1) are not gone 90 s after SIGKILL, blocked in the kernel on n1: look at the file "
        "system of the run");
  // Sooner or later the job goes on without them, and nobody says that they have done anything.
  const TeardownView late = judge_teardown(1'800'000, nodes(1, true), 100);
  CHECK(late.over);
  CHECK(!late.accused);
  CHECK(late.leave.size() == 1);
}

TEST_CASE("teardown: more than two of a hundred nodes at once have no fault of their own") {
  CHECK(judge_teardown(60'000, nodes(2), 100).accused);
  const TeardownView view = judge_teardown(60'000, nodes(6), 100);
  CHECK(!view.over);
  CHECK(view.waits_for.find("48 ranks on 6 of 100 nodes (n1, n2, n3, n4, 2 more)") == 0);
  CHECK(!judge_teardown(60'000, nodes(128), 128).over);
  CHECK(!judge_teardown(60'000, nodes(2), 4).over);  // one of a few, and no more
  CHECK(judge_teardown(60'000, nodes(1), 4).over);
}
