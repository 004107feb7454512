#include "engine/checkpoint/global/checkpoint_store.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/checkpoint/format/shard_file.h"
#include "engine/checkpoint/global/checkpoint_load.h"
#include "engine/checkpoint/global/checkpoint_reader.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "tests/support/write_shard.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

void resume(const CheckpointStore& checkpoints, test::TrainingSetup& setup) {
  TrainingState state = state_of(setup.trainer);
  auto loaded = checkpoints.load_newest(setup.mesh.world(), state);
  REQUIRE(loaded.ok());
  REQUIRE(loaded->has_value());
  setup.trainer.progress() = state.progress;
  setup.store.refresh_compute_copy(setup.context);
}

}  // namespace

TEST_CASE("a resumed training is bit-identical to one that was never interrupted") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CheckpointFolder folder;
    const SystemClock clock;
    CheckpointStore checkpoints(clock, folder.path, 2);
    test::TrainingSetup whole(8, 20, 2, nullptr, dtype, 100), first(8, 20, 2, nullptr, dtype, 100),
        second(8, 20, 2, nullptr, dtype, 100);
    const std::vector<double> expected = train(whole, 20);
    std::vector<double> got = train(first, 10);
    auto saved = checkpoints.save(first.mesh.world(), state_of(first.trainer));
    REQUIRE(saved.ok());
    resume(checkpoints, second);
    CHECK(second.trainer.progress().step == 10);
    for (const double loss : train(second, 10)) got.push_back(loss);
    CHECK(got == expected);
    CHECK(std::equal(whole.store.masters().begin(), whole.store.masters().end(), second.store.masters().begin()));
    CHECK(same_bits(whole.trainer.optimizer().exp_avg_sq().memory(), second.trainer.optimizer().exp_avg_sq().memory()));
  }
}

TEST_CASE("a damaged checkpoint is named and the one before it is taken") {
  for (const bool truncated : {true, false}) {
    CheckpointFolder folder;
    const SystemClock clock;
    CheckpointStore checkpoints(clock, folder.path, 3);
    test::TrainingSetup setup(8, 20);
    for (int i = 0; i < 2; ++i) {
      train(setup, 1);
      REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
    }
    const std::string shard = folder.path + "/step-00000002/shard-00001-of-00001.safetensors";
    std::string bytes = *read_file(shard);
    if (truncated)
      bytes.resize(bytes.size() / 2);
    else
      bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
    REQUIRE(write_file_atomic(shard, bytes).ok());
    test::TrainingSetup again(8, 20);
    TrainingState state = state_of(again.trainer);
    auto loaded = checkpoints.load_newest(again.mesh.world(), state);
    REQUIRE(loaded.ok());
    REQUIRE(loaded->has_value());
    CHECK(state.progress.step == 1);
    REQUIRE((*loaded)->passed_over.size() == 1);
    CHECK((*loaded)->passed_over[0].find("shard-00001-of-00001.safetensors") != std::string::npos);
    // With no good one left, it does not start silently from the beginning.
    REQUIRE(remove_tree(folder.path + "/step-00000001").ok());
    CHECK(checkpoints.load_newest(again.mesh.world(), state).error().code == ErrorCode::corrupt);
  }
}

TEST_CASE("a manifest that leaves a part of a tensor out, or has it twice, is named before anything is read") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 3);
  test::TrainingSetup setup(8, 20);
  train(setup, 1);
  REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  const std::string path = checkpoints.path_of(1);
  const CheckpointManifest whole = *read_checkpoint_manifest(path);
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    CheckpointManifest wrong = whole;
    const CheckpointEntry last = wrong.entries.back();
    if (twice)
      wrong.entries.push_back(last);
    else
      wrong.entries.pop_back();
    REQUIRE(write_file_atomic(join_path(path, "checkpoint.json"), to_json_pretty(checkpoint_to_value(wrong))).ok());
    const auto opened = CheckpointReader::open(path);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == ErrorCode::corrupt);
    CHECK(opened.error().message().find("checkpoint.json") != std::string::npos);
    CHECK(opened.error().message().find(last.tensor) != std::string::npos);
  }
}

TEST_CASE("a checkpoint without one of the training's tensors is refused by that name, be it the first or the last") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 3);
  test::TrainingSetup setup(8, 20);
  train(setup, 1);
  REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  const std::string path = checkpoints.path_of(1);
  const CheckpointManifest whole = *read_checkpoint_manifest(path);
  TrainingState state = state_of(setup.trainer);
  const auto& parameters = state.layout->parameters();
  for (const std::string& tensor : {parameters.front().spec.name + state_suffixes().front(),
                                    parameters.back().spec.name + state_suffixes().back()}) {
    CAPTURE(tensor);
    CheckpointManifest without = whole;  // neither in the list of tensors nor among the entries: nothing contradicts
    REQUIRE(std::erase_if(without.tensors, [&](const auto& one) { return one.first == tensor; }) == 1);
    REQUIRE(std::erase_if(without.entries, [&](const CheckpointEntry& one) { return one.tensor == tensor; }) > 0);
    REQUIRE(write_file_atomic(join_path(path, "checkpoint.json"), to_json_pretty(checkpoint_to_value(without))).ok());
    const Status loaded = load_checkpoint(path, state);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().code == ErrorCode::corrupt);
    CHECK(loaded.error().what == path + " does not hold " + tensor);
  }
}

TEST_CASE("a full disk is one clear error, and the last checkpoint stays") {
  CheckpointFolder folder;
  const SystemClock clock;
  CheckpointStore checkpoints(clock, folder.path, 2);
  test::TrainingSetup setup(8, 20);
  train(setup, 1);
  REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  train(setup, 1);
  const int exit = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};  // the kernel refuses to write further, as a full disk does
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto saved = checkpoints.save(setup.mesh.world(), state_of(setup.trainer));
    const bool clear = !saved.ok() && saved.error().code == ErrorCode::io &&
                       saved.error().what.find("shard-00001") != std::string::npos;
    ::_exit(clear ? 5 : 6);
  });
  CHECK(exit == 5);
  test::TrainingSetup again(8, 20);
  resume(checkpoints, again);
  CHECK(again.trainer.progress().step == 1);
}

TEST_CASE("an empty state folder is a fresh start; another model's checkpoint is refused") {
  CheckpointFolder folder;
  const SystemClock clock;
  CheckpointStore checkpoints(clock, folder.path, 2);
  test::TrainingSetup setup(8, 20);
  TrainingState state = state_of(setup.trainer);
  auto loaded = checkpoints.load_newest(setup.mesh.world(), state);
  REQUIRE(loaded.ok());
  CHECK_FALSE(loaded->has_value());
  train(setup, 1);
  REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  state.shape.hidden_size *= 2;
  CHECK(checkpoints.load_newest(setup.mesh.world(), state).error().code == ErrorCode::invalid_input);
}

TEST_CASE("boxes of another layout are put together again") {
  CheckpointFolder folder;
  const SystemClock clock;
  test::TrainingSetup setup(8, 20), again(8, 20);
  train(setup, 2);
  // Written as a tp = 2 training would: every matrix with rows or columns halved, each half in two flat ranges.
  TrainingState state = state_of(setup.trainer);
  CheckpointManifest manifest;
  manifest.step = 2, manifest.adam_step = 2, manifest.consumed_samples = 16, manifest.shape = state.shape;
  std::vector<std::vector<float>> memory;
  std::vector<ShardTensor> tensors;
  const auto arrays = {std::pair<std::string, std::span<float>>{"", state.masters.memory().span<float>()},
                       {"#exp_avg", state.exp_avg.memory().span<float>()},
                       {"#exp_avg_sq", state.exp_avg_sq.memory().span<float>()}};
  ParallelDims dims;
  dims.tp = 2;
  memory.reserve(10000);
  for (const auto& [suffix, values] : arrays) {
    for (const FlatParameter& p : state.layout->parameters()) {
      manifest.tensors.emplace_back(p.spec.name + suffix, p.spec.shape);
      for (int tp = 0; tp < (p.spec.tp_dim < 0 ? 1 : 2); ++tp) {
        const Box box = shard_of(p.spec, state.shape, dims, coordinates_of(dims, tp));
        std::vector<float> flat;
        const std::int64_t columns = p.spec.shape.back(), width = box.extent.back();
        for (std::int64_t i = 0; i < box.elements(); ++i) {
          const std::int64_t row = box.extent.size() == 2 ? box.offset[0] + i / width : 0,
                             column = box.offset.back() + i % width;
          flat.push_back(values[static_cast<std::size_t>(p.begin + row * columns + column)]);
        }
        const std::int64_t cut = box.elements() / 3;
        for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, box.elements()}}) {
          memory.emplace_back(flat.begin() + begin, flat.begin() + end);
          const std::string_view bytes(reinterpret_cast<const char*>(memory.back().data()),
                                       memory.back().size() * sizeof(float));
          const std::string key = format("{}{}:{}@{}", p.spec.name, suffix, tp, begin);
          tensors.push_back({key, "F32", {end - begin}, bytes});
          manifest.entries.push_back(
              {p.spec.name + suffix, box, begin, end, "a.safetensors", key, "F32", xxh3_64(bytes)});
        }
      }
    }
  }
  const std::string path = folder.path + "/step-00000002";
  REQUIRE(make_directories(path).ok());
  REQUIRE(testing::write_shard(path + "/a.safetensors", tensors).ok());
  REQUIRE(write_file_atomic(path + "/checkpoint.json", to_json(checkpoint_to_value(manifest))).ok());
  resume(CheckpointStore(clock, folder.path, 2), again);
  CHECK(std::equal(setup.store.masters().begin(), setup.store.masters().end(), again.store.masters().begin()));
  CHECK(train(setup, 3) == train(again, 3));
}

TEST_CASE("a shard file with a broken header is refused") {
  CheckpointFolder folder;
  const std::string path = folder.path + "/x.safetensors";
  const std::vector<float> values(10, 1.0F);
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), 40);
  REQUIRE(testing::write_shard(path, std::vector<ShardTensor>{{"a", "F32", {2, 5}, bytes}}).ok());
  REQUIRE(ShardReader::open(path).ok());
  CHECK(ShardReader::open(path)->find("a")->bytes == bytes);
  const std::string good = *read_file(path);
  const std::string broken[] = {"",
                                good.substr(0, 4),
                                good.substr(0, 30),
                                good.substr(0, good.size() - 1),
                                replace_all(good, "[2,5]", "[2,6]"),
                                std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F") + good.substr(8)};
  for (const std::string& text : broken) {
    REQUIRE(write_file_atomic(path, text).ok());
    CHECK(ShardReader::open(path).error().code == ErrorCode::corrupt);
  }
}
