// What a fresh load finds after a save that did not come to its end.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/read_back.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// Exit code 7 when it was saved and read back, 3 when it failed. The training goes on below an asynchronous save.
void save_in_child(const CheckpointStore& checkpoints, TrainingSetup& setup, bool asynchronous) {
  const SystemClock clock;
  CheckpointSaverOptions options;
  options.asynchronous = asynchronous;
  CheckpointSaver saver(clock, checkpoints, options);
  if (!saver.start(setup.mesh.world(), state_of(setup.trainer)).ok()) ::_exit(3);
  if (asynchronous) train(setup, 1);
  const auto saved = saver.finish(setup.mesh.world());
  if (!saved.ok()) ::_exit(3);
  CheckpointReadBack read_back(clock, checkpoints);
  const bool wanted = read_back.want(setup.mesh.world(), *saved, saver.votes()).ok();
  ::_exit(wanted && read_back.finish(setup.mesh.world()).ok() ? 7 : 3);
}

bool is_published_at(const std::string& point) {
  return point == "checkpoint_after_manifest" || point == "checkpoint_after_latest" || point == "checkpoint_retiring" ||
         point == "checkpoint_list";
}

}  // namespace

TEST_CASE("killed at any point of a save, the training finds its last whole checkpoint") {
  for (const std::string& point : fault_point_names("checkpoint_")) {
    for (const char* action : {"kill", "error"}) {
      for (const bool asynchronous : {true, false}) {
        if (!asynchronous && point == "checkpoint_staged") continue;  // not on its way
        if (point == "checkpoint_list" && std::string(action) == "error")
          continue;  // nothing is retired, and that is well
        CAPTURE(point);
        CAPTURE(std::string(action));
        CAPTURE(asynchronous);
        CheckpointFolder folder;
        const SystemClock clock;
        const CheckpointStore checkpoints(clock, folder.path + "/state", 1);
        TrainingSetup setup(8, 20);
        train(setup, 1);
        const std::vector<float> before = weights_of(setup);
        REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
        train(setup, 1);
        const std::vector<float> after = weights_of(setup);
        const std::string plan = folder.path + "/plan";
        REQUIRE(write_file_atomic(plan, point + " " + action + "\n").ok());
        const int exit = in_child([&] {
          if (!load_fault_plan(plan).ok()) ::_exit(9);
          save_in_child(checkpoints, setup, asynchronous);
        });
        CHECK(exit == (std::string(action) == "kill" ? -SIGKILL : 3));
        CHECK(starts_with(*read_file(plan + ".hits"), point));

        TrainingSetup again(8, 20);
        TrainingState state = state_of(again.trainer);
        const auto loaded = checkpoints.load_newest(again.mesh.world(), state);
        REQUIRE(loaded.ok());
        REQUIRE(loaded->has_value());
        CHECK((*loaded)->passed_over.empty());
        CHECK(state.progress.step == (is_published_at(point) ? 2 : 1));
        CHECK(weights_of(again) == (is_published_at(point) ? after : before));
        // And the same step can be saved over what was left behind.
        again.trainer.progress().step = 2;
        CHECK(checkpoints.save(again.mesh.world(), state_of(again.trainer)).ok());
        CHECK(*checkpoints.list() == std::vector<std::string>{"step-00000002"});
      }
    }
  }
}

TEST_CASE("one of several ranks cannot write: all of them hear of it, and the last checkpoint stays") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path + "/state", 1);
  const std::string plan = folder.path + "/plan";
  REQUIRE(write_file_atomic(plan, "checkpoint_half_shard error nth=7\n").ok());  // of the second checkpoint
  ParallelDims dims;
  dims.tp = 2, dims.dp_shard = 2, dims.zero = 1;
  const int exit = in_child([&] {
    if (!load_fault_plan(plan).ok()) ::_exit(9);
    std::atomic<int> right{0};
    on_threads(dims, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh);
      CheckpointSaver saver(clock, checkpoints, {});
      train(setup, 1);
      if (!saver.start(mesh.world(), test::state_of(setup)).ok() || !saver.finish(mesh.world()).ok()) return;
      train(setup, 1);
      if (!saver.start(mesh.world(), test::state_of(setup)).ok()) return;
      const auto saved = saver.finish(mesh.world());
      right += !saved.ok() && saved.error().code == ErrorCode::io && !saver.busy() &&
               saved.error().message().find("step-00000002") != std::string::npos;
    });
    ::_exit(right);
  });
  CHECK(exit == 4);
  CHECK(*checkpoints.list() == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("a write that goes on is waited for however long it takes, and one that stands still is an error of all") {
  const auto finished = [](const std::string& plan_text) {
    CheckpointFolder folder;
    const SystemClock clock;
    const CheckpointStore checkpoints(clock, folder.path + "/state", 1);
    const std::string plan = folder.path + "/plan";
    REQUIRE(write_file_atomic(plan, plan_text).ok());
    ParallelDims dims;
    dims.dp_shard = 2, dims.zero = 1;
    const int exit = in_child([&] {
      if (!load_fault_plan(plan).ok()) ::_exit(99);
      std::atomic<int> whole{0}, failed_alike{0}, reported{0};
      on_threads(dims, [&](int, Mesh& mesh) {
        TrainingSetup setup(16, 20, 2, &mesh);
        CheckpointSaverOptions options;
        options.still_ms = 600;
        std::int64_t most = 0;
        options.on_writing = [&](std::int64_t bytes) { most = std::max(most, bytes); };
        CheckpointSaver saver(clock, checkpoints, options);
        train(setup, 1);
        if (!saver.start(mesh.world(), test::state_of(setup)).ok()) return;
        const auto saved = saver.finish(mesh.world());
        whole += saved.ok();
        reported += most > 0;
        failed_alike += !saved.ok() && saved.error().code == ErrorCode::timeout &&
                        saved.error().message().find("1 of 2 ranks") != std::string::npos;
      });
      ::_exit(10 * whole + failed_alike + (reported > 0 ? 40 : 0));
    });
    return exit;
  };
  // The slow rank stands for 400 ms three times, and the other one waits for 1.2 s: no 600 ms without a byte.
  CHECK(finished("checkpoint_before_shard delay_ms=400\ncheckpoint_half_shard delay_ms=400\n"
                 "checkpoint_after_shard delay_ms=400\n") == 60);
  CHECK(finished("checkpoint_half_shard delay_ms=2500\n") == 42);
}

TEST_CASE("a full disk under several shards: the newest whole checkpoint is found, and saving works again") {
  const int exit = in_child([] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
    CheckpointFolder folder;
    if (::mount("none", folder.path.c_str(), "tmpfs", 0, "size=640k") != 0) ::_exit(77);
    const SystemClock clock;
    const CheckpointStore checkpoints(clock, folder.path + "/state", 1);
    ParallelDims dims;
    dims.tp = 2;
    int exit_code = 0;
    on_threads(dims, [&](int rank, Mesh& mesh) {
      const auto fails = [&](int code) {
        if (rank == 0 && exit_code == 0) exit_code = code;
      };
      TrainingSetup setup(16, 20, 2, &mesh);
      CheckpointSaver saver(clock, checkpoints, {});
      const auto save = [&]() -> Result<SavedCheckpoint> {
        LH_CHECK(saver.start(mesh.world(), test::state_of(setup)));
        return saver.finish(mesh.world());
      };
      train(setup, 1);
      if (!save().ok()) fails(1);
      // Others take what is left.
      if (rank == 0)
        write_file_renamed(folder.path + "/others", std::string(*free_bytes(folder.path) - 150'000, 'x')).ok();
      train(setup, 1);
      const auto full = save();
      if (full.ok() || full.error().code != ErrorCode::io) fails(2);
      TrainingState state = test::state_of(setup);
      const auto loaded = checkpoints.load_newest(mesh.world(), state);
      if (!loaded.ok() || !loaded->has_value() || state.progress.step != 1) fails(3);
      if (rank == 0) remove_tree(folder.path + "/others").ok();
      if (!mesh.world().barrier().ok() || !save().ok() || checkpoints.list()->front() != "step-00000002") fails(4);
    });
    ::umount(folder.path.c_str());
    [[maybe_unused]] const Status removed = remove_tree(folder.path);
    ::_exit(exit_code);
  });
  if (exit == 77)
    MESSAGE("skipped: no file system may be mounted here");
  else
    CHECK(exit == 0);
}
