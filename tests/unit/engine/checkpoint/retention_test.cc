#include "engine/checkpoint/retention.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

using Names = std::vector<std::string>;

Names removed_by(const RetentionPolicy& policy, const std::vector<CheckpointStanding>& standings) {
  return checkpoints_to_remove(standings, policy);
}

}  // namespace

TEST_CASE("old checkpoints are removed, the newest ones kept") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 2);
  TrainingSetup setup(8, 20);
  for (int i = 0; i < 4; ++i) {
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  }
  CHECK(checkpoints.list() == Names{"step-00000004", "step-00000003"});
  CHECK(*list_directory(folder.path) == Names{"latest.json", "step-00000003", "step-00000004"});
}

TEST_CASE("which checkpoints may go") {
  const std::vector<CheckpointStanding> five = {{"e", 50, false, 1.0, {}},
                                                {"d", 40, false, 5.0, {}},
                                                {"c", 30, true, 4.0, {}},
                                                {"b", 20, false, 3.0, {}},
                                                {"a", 10, false, 2.0, {}}};
  CHECK(removed_by({2, 0, 0}, five) == Names{"b", "a"});  // c is pinned or being read
  CHECK(removed_by({1, 20, 0}, five) == Names{"a"});
  CHECK(removed_by({1, 0, 2}, five) == Names{"d", "b"});  // best: e, a
  CHECK(removed_by({1, 0, 0}, {}).empty());
  // Where a held-out loss was measured it decides, and what has none does not take part.
  std::vector<CheckpointStanding> measured = five;
  measured[1].heldout_loss = 2.5, measured[3].heldout_loss = 2.6;
  CHECK(removed_by({1, 0, 1}, measured) == Names{"b", "a"});
}

TEST_CASE("a checkpoint that is pinned or being read stays, and the best of those behind it") {
  CheckpointFolder folder;
  ManualClock clock;
  const CheckpointStore checkpoints(clock, folder.path, RetentionPolicy{1, 0, 1});
  TrainingSetup setup(8, 20);
  const auto save = [&](double heldout_loss) {
    train(setup, 1);
    TrainingState state = state_of(setup.trainer);
    state.extra.set(checkpoint_heldout_loss_key, heldout_loss);
    REQUIRE(checkpoints.save(setup.mesh.world(), state).ok());
  };
  save(3.0);
  REQUIRE(write_file_atomic(folder.path + "/step-00000001/pinned", "").ok());
  save(1.0);  // the best
  save(2.0);
  {
    const ReadClaim claim(clock, folder.path + "/step-00000003");
    save(2.5);
    CHECK(checkpoints.list() == Names{"step-00000004", "step-00000003", "step-00000002", "step-00000001"});
  }
  save(2.5);
  CHECK(checkpoints.list() == Names{"step-00000005", "step-00000002", "step-00000001"});

  // The claim of a reader that died does not hold for ever.
  REQUIRE(
      write_file_atomic(folder.path + "/step-00000005/reading.elsewhere.1.0", std::to_string(clock.wall_ms())).ok());
  CHECK(is_being_read(clock, folder.path + "/step-00000005"));
  clock.advance_ms(2 * 3'600'000);
  CHECK_FALSE(is_being_read(clock, folder.path + "/step-00000005"));
}
