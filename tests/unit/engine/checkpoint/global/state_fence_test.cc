// Two launches that write into one folder, the earlier one stopped in between.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/local/restart_source.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

StateFence fence_of_life(const std::string& state, int restarts) {
  return {state, StateOwner{1, restarts, 1, "n1", 1}};
}

}  // namespace

TEST_CASE("a launch that was followed while it was stopped publishes nothing, whenever that was") {
  for (const std::string point : {"checkpoint_after_votes", "checkpoint_before_manifest", "checkpoint_before_shard",
                                  "checkpoint_after_manifest", "checkpoint_retiring"}) {
    CAPTURE(point);
    CheckpointFolder folder;
    const SystemClock clock;
    const std::string state = folder.path + "/state", plan = folder.path + "/plan";
    const auto store_of = [&](int restarts) {
      CheckpointStore store(clock, state + "/checkpoints", 1);
      store.set_fence(fence_of_life(state, restarts));
      return store;
    };
    TrainingSetup setup(8, 20);
    train(setup, 1);
    REQUIRE(take_state(state, fence_of_life(state, 0).owner()).ok());
    REQUIRE(store_of(0).save(setup.mesh.world(), state_of(setup.trainer)).ok());
    train(setup, 1);
    REQUIRE(write_file_atomic(plan, point + " delay_ms=700\n").ok());
    const pid_t former = ::fork();
    if (former == 0) {
      if (!load_fault_plan(plan).ok()) ::_exit(9);
      const auto saved = store_of(0).save(setup.mesh.world(), state_of(setup.trainer));
      ::_exit(saved.ok() ? 1 : saved.error().code == ErrorCode::conflict ? 5 : 6);
    }
    for (int i = 0; i < 5'000 && !file_exists(plan + ".hits"); ++i) ::usleep(2'000);
    REQUIRE(file_exists(plan + ".hits"));
    // The job was queued again, and its next life saves the same step, of other weights.
    REQUIRE(take_state(state, fence_of_life(state, 1).owner()).ok());
    setup.store.masters()[0] += 1;
    const std::vector<float> later = weights_of(setup);
    REQUIRE(store_of(1).save(setup.mesh.world(), state_of(setup.trainer)).ok());
    int status = 0;
    REQUIRE(::waitpid(former, &status, 0) == former);
    CHECK(WEXITSTATUS(status) == 5);
    TrainingSetup again(8, 20);
    TrainingState loaded = state_of(again.trainer);
    const auto newest = store_of(1).load_newest(again.mesh.world(), loaded);
    REQUIRE(newest.ok());
    CHECK((*newest)->passed_over.empty());
    CHECK(loaded.progress.step == 2);
    CHECK(weights_of(again) == later);
  }
}

TEST_CASE("a launch that was followed removes and renames nothing, nor does it write copies on the nodes") {
  CheckpointFolder folder;
  const SystemClock clock;
  const std::string state = folder.path + "/state";
  CheckpointStore store(clock, state + "/checkpoints", 1);
  store.set_fence(fence_of_life(state, 0));
  TrainingSetup setup(8, 20);
  train(setup, 1);
  const auto saved = store.save(setup.mesh.world(), state_of(setup.trainer));
  REQUIRE(saved.ok());
  const auto files = list_tree(saved->path);
  CHECK(std::ranges::count(*files, "shard-00001-of-00001." + store.fence().owner().tag() + ".safetensors") == 1);
  LocalCopiesOptions here;
  here.folder = folder.path + "/node", here.fence = store.fence();
  REQUIRE(make_directories(here.folder).ok());
  const auto copies = LocalCopies::create(clock, setup.mesh.world(), state, here);
  REQUIRE(copies.ok());
  REQUIRE(take_state(state, fence_of_life(state, 1).owner()).ok());
  CHECK(store.prepare(saved->path).error().code == ErrorCode::conflict);
  CHECK(store.set_aside_after(0).error().code == ErrorCode::conflict);
  CHECK((*copies)->start(setup.mesh.world(), state_of(setup.trainer)).error().code == ErrorCode::conflict);
  CHECK(*list_tree(saved->path) == *files);
}

TEST_CASE("a manifest is not written for shards that something else has removed") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  train(setup, 1);
  CheckpointSaver saver(clock, store, {});
  REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
  while (!saver.ready()) ::usleep(1'000);
  REQUIRE(remove_tree(store.path_of(1) + "/" + store.shard_name(0, 1)).ok());
  const auto saved = saver.finish(setup.mesh.world());
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().message().find("shard-00001-of-00001.safetensors is gone") != std::string::npos);
  CHECK(store.list()->empty());
}
