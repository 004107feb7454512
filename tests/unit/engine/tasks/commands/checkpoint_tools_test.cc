#include "engine/tasks/commands/checkpoint_tools.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/checkpoint/global/checkpoint_load.h"
#include "engine/model/store/model_folder.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// A checkpoint that two tensor-parallel ranks wrote, and the training on one rank that it came from.
struct SavedByTwo {
  SavedByTwo() {
    train(setup, 2);
    const SystemClock clock;
    const CheckpointStore one(clock, folder.path + "/one", 1), two(clock, folder.path + "/two", 1);
    REQUIRE(one.save(setup.mesh.world(), state_of(setup.trainer)).ok());
    ParallelDims dims;
    dims.tp = 2;
    std::atomic<int> saved{0};
    on_threads(dims, [&](int, Mesh& mesh) {
      TrainingSetup shard(8, 20, 2, &mesh);
      TrainingState state = state_of(shard.trainer);
      if (!one.load_newest(mesh.world(), state).ok()) return;
      saved += two.save(mesh.world(), state).ok();
    });
    REQUIRE(saved == 2);
    path = *find_checkpoint(folder.path + "/two");
  }
  CheckpointFolder folder;
  TrainingSetup setup{8, 20};
  std::string path;
};

void check_same(const std::string& path, TrainingSetup& setup) {
  TrainingSetup again(8, 20);
  TrainingState state = state_of(again.trainer), expected = state_of(setup.trainer);
  REQUIRE(load_checkpoint(path, state, 2).ok());
  CHECK(state.progress == expected.progress);
  CHECK(same_bits(state.masters.memory(), expected.masters.memory()));
  CHECK(same_bits(state.exp_avg.memory(), expected.exp_avg.memory()));
  CHECK(same_bits(state.exp_avg_sq.memory(), expected.exp_avg_sq.memory()));
}

}  // namespace

TEST_CASE("a checkpoint says what it holds without its shards being read") {
  const SavedByTwo saved;
  const auto summary = inspect_checkpoint(saved.path);
  REQUIRE(summary.ok());
  CHECK(summary->manifest.step == 2);
  CHECK(summary->files.size() == 2);
  CHECK(summary->bytes == 12 * saved.setup.store.shape().parameter_count());
  CHECK(summary_text(*summary).find("tp=2") != std::string::npos);
  CHECK(summary_text(*summary).find("shard-00002-of-00002.safetensors") != std::string::npos);
  const auto value = parse_json(to_json(summary_value(*summary)), "inspect");
  CHECK(value->get_integer("bytes") == summary->bytes);
  CHECK(find_checkpoint(saved.folder.path).error().code == ErrorCode::not_found);
}

TEST_CASE("verify names every shard that is damaged, and nothing else") {
  const SavedByTwo saved;
  const auto good = verify_checkpoint(saved.path, 3);
  REQUIRE(good.ok());
  CHECK(good->damage.empty());
  CHECK(good->bytes == 12 * saved.setup.store.shape().parameter_count());
  const std::string shard = saved.path + "/shard-00002-of-00002.safetensors", bytes = *read_file(shard);
  const auto damage_of = [&](const std::string& now) {
    REQUIRE(write_file_atomic(shard, now).ok());
    const auto found = verify_checkpoint(saved.path, 3);
    REQUIRE(found.ok());
    REQUIRE(found->damage.size() == 1);
    CHECK(found->damage[0].find(shard) != std::string::npos);
    return found->damage[0];
  };
  std::string flipped = bytes;
  flipped[flipped.size() - 5] = static_cast<char>(flipped[flipped.size() - 5] ^ 4);
  CHECK(damage_of(flipped).find("digest") != std::string::npos);
  damage_of(bytes.substr(0, bytes.size() / 2));
  REQUIRE(remove_tree(shard).ok());
  CHECK(verify_checkpoint(saved.path, 1)->damage.size() == 1);
}

TEST_CASE("written again as of any layout a checkpoint is the same training") {
  SavedByTwo saved;
  const auto layout = [](int tp, int pp, int replicas, int shard) {
    ParallelDims dims;
    dims.tp = tp, dims.pp = pp, dims.dp_replicate = replicas, dims.dp_shard = shard, dims.zero = shard > 1;
    return dims;
  };
  std::string from = saved.path;
  for (const ParallelDims& dims : {layout(2, 2, 1, 1), layout(1, 1, 3, 1), layout(2, 1, 2, 2), layout(1, 1, 1, 1)}) {
    CAPTURE(dims.to_string());
    const std::string to = format("{}/as-of-{}-ranks/step-00000002", saved.folder.path, dims.world_size());
    REQUIRE(reshard_checkpoint(from, to, dims).ok());
    CHECK(inspect_checkpoint(to)->manifest.written_by == dims);
    CHECK(inspect_checkpoint(to)->files.size() == static_cast<std::size_t>(dims.world_size()));
    CHECK(verify_checkpoint(to, 2)->damage.empty());
    check_same(to, saved.setup);
    from = to;
  }
  // As of one rank: the files that one rank wrote.
  CHECK(*read_file(from + "/shard-00001-of-00001.safetensors") ==
        *read_file(saved.folder.path + "/one/step-00000002/shard-00001-of-00001.safetensors"));
  CHECK(reshard_checkpoint(saved.path, from, layout(1, 1, 1, 1)).error().code == ErrorCode::conflict);
  REQUIRE(remove_tree(saved.path + "/shard-00001-of-00002.safetensors").ok());
  const Status torn = reshard_checkpoint(saved.path, saved.folder.path + "/torn", layout(1, 1, 1, 1));
  CHECK(torn.error().message().find("shard-00001-of-00002") != std::string::npos);
  CHECK_FALSE(file_exists(saved.folder.path + "/torn/checkpoint.json"));
}

TEST_CASE("the exported model has the weights of the training") {
  SavedByTwo saved;
  CheckpointExport options;
  options.shard_bytes_max = 20'000;
  const std::string folder = saved.folder.path + "/model";
  REQUIRE(export_checkpoint(saved.path, folder, options).ok());
  const auto config = load_model_config(folder);
  REQUIRE(config.ok());
  CHECK(config->shape.parameter_count() == saved.setup.store.shape().parameter_count());
  CHECK(file_exists(folder + "/model.safetensors.index.json"));
  ParameterStore store(saved.setup.store.shape(), DType::f32);
  REQUIRE(load_model_weights(saved.setup.context, folder, store).ok());
  CHECK(std::equal(store.masters().begin(), store.masters().end(), saved.setup.store.masters().begin()));
  CHECK(export_checkpoint(saved.path, folder, options).error().code == ErrorCode::conflict);
  options.dtype = "bf16", options.shard_bytes_max = 0;
  REQUIRE(export_checkpoint(saved.path, saved.folder.path + "/bf16", options).ok());
  CHECK(*file_size(saved.folder.path + "/bf16/model.safetensors") <
        static_cast<std::uint64_t>(2 * store.shape().parameter_count() + 5'000));
}

TEST_CASE("who exports a reward model from a checkpoint learns that it is taken for one of whole answers") {
  ModelShape shape;
  CHECK(export_notice(shape).empty());
  shape.scalar_head = true;
  CHECK(export_notice(shape).find("method = \"process\"") != std::string::npos);
}
