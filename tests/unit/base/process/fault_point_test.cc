#include "base/process/fault_point.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// A plan belongs to a process, so every case runs in a child of its own. Returns waitpid's status.
template <class F>
int status_of_child(const std::string& plan_path, const std::string& plan, const F& body) {
  REQUIRE(write_file_atomic(plan_path, plan).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    if (!load_fault_plan(plan_path).ok()) ::_exit(99);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("every point has a name of its own") {
  const auto names = fault_point_names("");
  CHECK(names.size() == static_cast<std::size_t>(FaultPoint::count));
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(fault_point_name(FaultPoint::checkpoint_before_manifest) == std::string("checkpoint_before_manifest"));
  CHECK(fault_point_name(FaultPoint::engine_before_artifact) == std::string("engine_before_artifact"));
  for (const std::string& name : fault_point_names("lead_")) CHECK(starts_with(name, "lead_"));
  CHECK(fault_point_names("lead_").size() == 5);
}

TEST_CASE("without a plan no point fires") {
  for (int i = 0; i < static_cast<int>(FaultPoint::count); ++i) CHECK_FALSE(fault_here(static_cast<FaultPoint>(i)));
}

TEST_CASE("an error fires at the passage that the plan names, once, and is counted outside") {
  const testing::Scratch scratch;
  const int status = status_of_child(scratch.file("plan"), "engine_step_begin error nth=3\n\n", [] {
    for (int passage = 1; passage <= 5; ++passage) {
      const auto fault = fault_here(FaultPoint::engine_step_begin);
      if (fault.has_value() != (passage == 3)) return 1;
      if (fault_here(FaultPoint::lead_claimed)) return 2;
    }
    return 0;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const auto words = split(trim(read_file(scratch.file("plan.hits")).value()), ' ');
  REQUIRE(words.size() == 2);
  CHECK(words[0] == "engine_step_begin");
}

TEST_CASE("an action for one rank of a launch happens in that one only") {
  const testing::Scratch scratch;
  const auto passes = [](const std::string& path, int rank) {
    if (!load_fault_plan(path, rank).ok()) return 9;
    return (fault_here(FaultPoint::engine_update) ? 1 : 0) + (fault_here(FaultPoint::engine_backward) ? 2 : 0);
  };
  const auto in_child = [&](int rank) {
    const std::string path = scratch.file("plan");
    REQUIRE(write_file_atomic(path, "engine_update error nth=1 rank=0\nengine_backward error rank=2\n").ok());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(passes(path, rank));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  CHECK(in_child(0) == 1);
  CHECK(in_child(2) == 2);
  CHECK(in_child(1) == 0);
  CHECK(in_child(-1) == 0);
}

TEST_CASE("kill, exit and delay happen inside the point") {
  const testing::Scratch scratch;
  const auto pass_once = [] {
    (void)fault_here(FaultPoint::controller_after_intent);
    return 0;
  };
  const int killed = status_of_child(scratch.file("a"), "controller_after_intent kill", pass_once);
  CHECK(WIFSIGNALED(killed));
  CHECK(WTERMSIG(killed) == SIGKILL);
  const int ended = status_of_child(scratch.file("b"), "controller_after_intent exit", pass_once);
  CHECK(WEXITSTATUS(ended) == 70);
  SystemClock clock;
  const std::int64_t before = clock.monotonic_ns();
  const int delayed = status_of_child(scratch.file("c"), "controller_after_intent delay_ms=100", pass_once);
  CHECK(WEXITSTATUS(delayed) == 0);
  CHECK(clock.monotonic_ns() - before >= 100'000'000);
  for (const std::string plan : {"a", "b", "c"}) CHECK(file_exists(scratch.file(plan + ".hits")));
}

TEST_CASE("a point of data flips the bit that the plan names, once or always, and points of other kinds do not") {
  const testing::Scratch scratch;
  const int status = status_of_child(scratch.file("plan"),
                                     "engine_contribution flip=17 nth=2\nengine_gradient flip nth=2 always\n", [] {
                                       std::uint64_t before = 0;
                                       for (int passage = 1; passage <= 4; ++passage) {
                                         const auto bit = flip_here(FaultPoint::engine_contribution);
                                         if (bit.has_value() != (passage == 2) || (bit && *bit != 17)) return 1;
                                         const auto drawn = flip_here(FaultPoint::engine_gradient);
                                         if (drawn.has_value() != (passage >= 2)) return 2;
                                         if (drawn && *drawn == before) return 3;
                                         if (drawn) before = *drawn;
                                       }
                                       std::array<std::byte, 4> data{};
                                       flip_bit(data, 17 + 32);
                                       return data[2] == std::byte{2} ? 0 : 4;
                                     });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(split(trim(read_file(scratch.file("plan.hits")).value()), '\n').size() == 4);
}

TEST_CASE("a plan that begins with follow gets actions while the process runs; others never look again") {
  const testing::Scratch scratch;
  for (const bool follows : {true, false}) {
    CAPTURE(follows);
    const std::string path = scratch.file(follows ? "followed" : "fixed");
    const int status = status_of_child(path, follows ? "follow\n" : "lead_claimed error nth=9\n", [&] {
      if (fault_here(FaultPoint::engine_update)) return 1;
      if (!append_file_synced(path, "engine_update error\ncheckpoint_before_shard disk_full\nengine_loss err").ok())
        return 2;
      const auto fault = fault_here(FaultPoint::engine_update);
      const auto full = fault_here(FaultPoint::checkpoint_before_shard);
      if (fault.has_value() != follows || full.has_value() != follows) return 3;
      if (full && full->what.find("No space left on device") == std::string::npos) return 4;
      if (fault_here(FaultPoint::engine_loss)) return 5;  // its line is not whole yet
      if (!append_file_synced(path, "or\n").ok()) return 6;
      return fault_here(FaultPoint::engine_loss).has_value() == follows ? 0 : 7;
    });
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("a plan that cannot be meant is refused, not ignored") {
  const testing::Scratch scratch;
  for (const std::string line :
       {"no_such_point kill", "lead_claimed", "lead_claimed explode", "lead_claimed kill nth=0",
        "lead_claimed kill nth=x", "lead_claimed kill 3", "lead_claimed delay_ms=soon", "lead_claimed kill rank=",
        "lead_claimed kill rank=-1", "lead_claimed flip", "engine_contribution kill", "engine_contribution flip=x",
        "lead_claimed kill always 1", "lead_claimed kill rank=1 nth=2", "lead_claimed kill nth=1 rank=1 2"}) {
    CAPTURE(line);
    REQUIRE(write_file_atomic(scratch.file("plan"), line).ok());
    CHECK(load_fault_plan(scratch.file("plan")).error().code == ErrorCode::invalid_input);
  }
  CHECK(load_fault_plan(scratch.file("absent")).error().code == ErrorCode::not_found);
  CHECK_FALSE(fault_here(FaultPoint::lead_claimed));
}

}  // namespace longhaul
