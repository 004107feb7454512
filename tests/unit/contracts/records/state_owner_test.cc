#include "contracts/records/state_owner.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "contracts/records/launch.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

StateOwner owner(int attempt, int restarts, std::int64_t epoch, const std::string& host, int launch) {
  return {attempt, restarts, epoch, host, launch};
}

}  // namespace

TEST_CASE("owner of a state: a later attempt, life, lead or launch, in this order") {
  const StateOwner in_order[] = {owner(1, 0, 1, "n1", 1), owner(1, 0, 1, "n1", 2), owner(1, 0, 2, "n1", 2),
                                 owner(1, 0, 2, "n2", 1), owner(1, 1, 1, "n1", 1), owner(2, 0, 1, "n1", 1)};
  for (std::size_t i = 0; i + 1 < std::size(in_order); ++i) {
    CAPTURE(i);
    CHECK(in_order[i] < in_order[i + 1]);
    CHECK(in_order[i].tag() != in_order[i + 1].tag());
  }
}

TEST_CASE("owner of a state: who was followed is refused, and both are named") {
  const testing::Scratch scratch;
  const std::string state = scratch.file("state");
  CHECK(read_state_owner(state)->is_nobody());
  const StateOwner first = owner(1, 0, 1, "n1", 3), later = owner(1, 1, 1, "n7", 1);
  REQUIRE(take_state(state, first).ok());
  const StateFence of_first(state, first), of_later(state, later);
  CHECK(of_first.look().ok());
  REQUIRE(take_state(state, later).ok());
  CHECK(of_later.look().ok());
  for (const Status& refused : {of_first.look(), take_state(state, first)}) {
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::conflict);
    for (const char* named : {"launch 3 of attempt 1 by the lead of epoch 1 on n1",
                              "launch 1 of attempt 1 (queued again 1 times) by the lead of epoch 1 on n7"})
      CHECK_MESSAGE(refused.error().message().find(named) != std::string::npos, refused.error().message());
  }
  CHECK(*read_state_owner(state) == later);
  CHECK(StateFence().look().ok());  // what a person does by hand
}

TEST_CASE("owner of a state: of two that write at the same moment the later one stays") {
  const testing::Scratch scratch;
  const std::string state = scratch.file("state");
  const StateOwner first = owner(1, 0, 1, "n1", 1), later = owner(2, 0, 1, "n2", 1);
  REQUIRE(take_state(state, first).ok());
  const std::string earlier = *read_file(state_owner_path(state));
  REQUIRE(take_state(state, later).ok());
  REQUIRE(write_file_atomic(state_owner_path(state), earlier).ok());  // it had looked before, and renames after
  CHECK(StateFence(state, later).look().ok());
  CHECK(*read_state_owner(state) == later);
  CHECK(StateFence(state, first).look().error().code == ErrorCode::conflict);
}

TEST_CASE("owner of a state: a file that says something else is an error, not nobody") {
  const testing::Scratch scratch;
  const std::string state = scratch.file("state");
  for (const char* text : {"{", "{}", "[]"}) {
    REQUIRE(write_file_atomic(state_owner_path(state), text).ok());
    CHECK_FALSE(read_state_owner(state).ok());
    CHECK_FALSE(take_state(state, owner(9, 0, 1, "n1", 1)).ok());
  }
}

TEST_CASE("owner of a state: launch.toml carries it, and the step that the training is known to have saved") {
  Launch launch;
  launch.attempt = 2, launch.launch = 5, launch.at_least_step = 240;
  launch.owner = owner(2, 3, 4, "n7", 5);
  const auto back = launch_from_value(launch_to_value(launch));
  REQUIRE(back.ok());
  CHECK(back->owner == launch.owner);
  CHECK(back->at_least_step == 240);
  CHECK(launch_from_value(launch_to_value(Launch()))->owner.is_nobody());
}
