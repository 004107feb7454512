#include "engine/checkpoint/global/checkpoint_saver.h"

#include <doctest/doctest.h>

#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// Every file of a checkpoint, its name before its bytes.
std::string all_files(const std::string& folder) {
  std::string all;
  const auto names = list_tree(folder);
  REQUIRE(names.ok());
  for (const std::string& name : *names) all += name + "\n" + *read_file(join_path(folder, name));
  return all;
}

SavedCheckpoint save_by(const CheckpointStore& store, TrainingSetup& setup, const CheckpointSaverOptions& options) {
  const SystemClock clock;
  CheckpointSaver saver(clock, store, options);
  REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
  auto saved = saver.finish(setup.mesh.world());
  REQUIRE(saved.ok());
  return *saved;
}

}  // namespace

TEST_CASE("written in the background or not, through the page cache or not: the same bytes") {
  CheckpointFolder folder;
  const SystemClock clock;
  TrainingSetup setup(8, 20);
  train(setup, 3);
  std::vector<std::string> written;
  for (const bool asynchronous : {false, true})
    for (const bool direct_io : {false, true}) {
      const CheckpointStore store(clock, format("{}/{}{}", folder.path, asynchronous, direct_io), 1);
      CheckpointSaverOptions options;
      options.asynchronous = asynchronous, options.direct_io = direct_io, options.compute = &setup.context;
      const SavedCheckpoint saved = save_by(store, setup, options);
      CHECK(saved.staged == asynchronous);
      CHECK(saved.step == 3);
      written.push_back(all_files(saved.path));
      CHECK(saved.bytes >= 12 * static_cast<std::uint64_t>(setup.store.shape().parameter_count()));  // three of f32
      CHECK(saved.bytes <= written.back().size());
    }
  for (const std::string& files : written) CHECK(files == written.front());
}

TEST_CASE("a saved checkpoint's size is that of all ranks on the first one, and of its own share on each other") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 1);
  std::vector<std::uint64_t> reported(2);
  on_threads(data_parallel(2), [&](int rank, Mesh& mesh) {
    TrainingSetup setup(16, 20, 2, &mesh);
    train(setup, 1);
    CheckpointSaver saver(clock, store, {});
    if (!saver.start(mesh.world(), test::state_of(setup)).ok()) return;
    if (const auto saved = saver.finish(mesh.world()); saved.ok())
      reported[static_cast<std::size_t>(rank)] = saved->bytes;
  });
  const auto manifest = read_checkpoint_manifest(store.path_of(1));
  REQUIRE(manifest.ok());
  std::uint64_t whole = 0, of_second = 0;
  for (const CheckpointEntry& entry : manifest->entries) {
    whole += static_cast<std::uint64_t>(entry.bytes());
    if (entry.file == store.shard_name(1, 2)) of_second += static_cast<std::uint64_t>(entry.bytes());
  }
  REQUIRE(of_second > 0);
  REQUIRE(of_second < whole);
  CHECK(reported[0] == whole);
  CHECK(reported[1] == of_second);
}

TEST_CASE("a checkpoint holds the step at which it was begun, however far the training went on") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 1);
  TrainingSetup setup(8, 20), again(8, 20);
  train(setup, 2);
  const std::vector<float> weights = weights_of(setup);
  CheckpointSaver saver(clock, store, {});
  REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
  CHECK(saver.busy());
  CHECK(store.list()->empty());
  train(setup, 3);
  REQUIRE(saver.finish(setup.mesh.world()).ok());
  CHECK_FALSE(saver.busy());
  TrainingState state = state_of(again.trainer);
  REQUIRE(store.load_newest(again.mesh.world(), state, 3).ok());
  CHECK(state.progress.step == 2);
  CHECK(weights_of(again) == weights);
}

TEST_CASE("the staging memory is counted, and bounded by the setting") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  train(setup, 1);
  const auto share =
      static_cast<std::int64_t>(setup.store.shape().parameter_count()) * 3 * static_cast<std::int64_t>(sizeof(float));
  MemoryAccount account;
  {
    CheckpointSaverOptions options;
    options.account = &account;
    CheckpointSaver saver(clock, store, options);
    REQUIRE(saver.reserve(setup.store.layout()).ok());
    CHECK(account.bytes_now >= share);
    CHECK(account.bytes_now < share + checkpoint_page_bytes);
  }
  CHECK(account.bytes_now == 0);
  CheckpointSaverOptions options;
  options.account = &account, options.staging_bytes_max = share - 1;
  CheckpointSaver saver(clock, store, options);
  const Status reserved = saver.reserve(setup.store.layout());
  REQUIRE_FALSE(reserved.ok());
  CHECK(reserved.error().what.find("staging_limit") != std::string::npos);
  // It saves all the same, and the training waits.
  CHECK_FALSE(save_by(store, setup, options).staged);
  CHECK(*store.list() == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("what is under way when its owner goes is given up, and is no checkpoint") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  train(setup, 1);
  {
    CheckpointSaver saver(clock, store, {});
    REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
  }
  CHECK(store.list()->empty());
  save_by(store, setup, {});
  CHECK(*store.list() == std::vector<std::string>{"step-00000001"});
}
