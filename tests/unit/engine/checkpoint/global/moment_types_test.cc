// Moments in bf16 are stored as they are; a training takes those of the other type, too.
#include <doctest/doctest.h>

#include "base/value/json.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/tasks/commands/checkpoint_tools.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

SetupOptions kept_in(const std::string& moments) {
  SetupOptions options;
  options.moments = moments, options.rounding = "stochastic";
  return options;
}

std::unique_ptr<TrainingSetup> training_with(const std::string& moments, Mesh* mesh = nullptr) {
  return std::make_unique<TrainingSetup>(8, 20, 2, mesh, DType::f32, 100, kept_in(moments));
}

TrainingState load_into(TrainingSetup& setup, const CheckpointStore& checkpoints) {
  TrainingState state = test::state_of(setup.trainer);
  auto loaded = checkpoints.load_newest(setup.mesh.world(), state);
  REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message()));
  REQUIRE(loaded->has_value());
  setup.trainer.progress() = state.progress;
  setup.store.refresh_compute_copy(setup.context);
  return state;
}

ParallelDims moment_dims(int tp) {
  ParallelDims dims;
  dims.tp = tp;
  return dims;
}

// Every moment of `narrow` is that of `wide`, rounded to nearest.
bool rounded(ConstView wide, ConstView narrow) {
  if (wide.size() != narrow.size()) return false;
  for (std::int64_t i = 0; i < wide.size(); ++i)
    if (narrow.as<bf16>()[i] != bf16(wide.as<float>()[i])) return false;
  return true;
}

}  // namespace

TEST_CASE("with moments in bf16, rounded stochastically, a resumed training is bit-identical") {
  for (const char* moments : {"bf16", "mixed"}) {
    CheckpointFolder folder;
    const SystemClock clock;
    const CheckpointStore checkpoints(clock, folder.path, 2);
    const auto whole = training_with(moments), first = training_with(moments), second = training_with(moments);
    const std::vector<double> expected = train(*whole, 20);
    std::vector<double> got = train(*first, 9);
    REQUIRE(checkpoints.save(first->mesh.world(), test::state_of(first->trainer)).ok());
    load_into(*second, checkpoints);
    for (const double loss : train(*second, 11)) got.push_back(loss);
    CHECK(got == expected);
    CHECK(weights_of(*whole) == weights_of(*second));
    CHECK(same_bits(whole->trainer.optimizer().exp_avg().memory(), second->trainer.optimizer().exp_avg().memory()));
    CHECK(
        same_bits(whole->trainer.optimizer().exp_avg_sq().memory(), second->trainer.optimizer().exp_avg_sq().memory()));
  }
}

TEST_CASE("moments change their type at a load, in any layout, and say so") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore wide(clock, folder.path + "/wide", 1), narrow(clock, folder.path + "/narrow", 1);
  const auto from = training_with("f32");
  train(*from, 3);
  const TrainingState expected = test::state_of(from->trainer);
  REQUIRE(wide.save(from->mesh.world(), expected).ok());
  // Two tensor-parallel ranks with bf16 moments take it and save again.
  std::atomic<int> saved{0};
  on_threads(moment_dims(2), [&](int, Mesh& mesh) {
    const auto shard = training_with("bf16", &mesh);
    TrainingState state = test::state_of(shard->trainer);
    if (!wide.load_newest(mesh.world(), state).ok()) return;
    saved += state.stored_types == all_f32 && narrow.save(mesh.world(), state).ok();
  });
  REQUIRE(saved == 2);
  const auto same = training_with("bf16");
  const TrainingState got = load_into(*same, narrow);
  CHECK(got.stored_types == got.types());
  CHECK(same_bits(got.masters.memory(), expected.masters.memory()));
  CHECK(rounded(expected.exp_avg.memory(), got.exp_avg.memory()));
  CHECK(rounded(expected.exp_avg_sq.memory(), got.exp_avg_sq.memory()));
  // And back: what was lost stays lost, nothing else.
  const auto back = training_with("f32");
  const TrainingState widened = load_into(*back, narrow);
  CHECK(widened.stored_types != widened.types());
  CHECK(rounded(widened.exp_avg_sq.memory(), got.exp_avg_sq.memory()));
  for (const float value : widened.exp_avg_sq.memory().span<float>())
    REQUIRE((std::bit_cast<std::uint32_t>(value) & 0xFFFF) == 0);
}

TEST_CASE("the tools know moments in bf16: inspect, verify, reshard, export") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path + "/a", 1);
  const auto setup = training_with("mixed");
  train(*setup, 2);
  REQUIRE(checkpoints.save(setup->mesh.world(), test::state_of(setup->trainer)).ok());
  const std::string path = *find_checkpoint(folder.path + "/a");
  const auto summary = inspect_checkpoint(path);
  REQUIRE(summary.ok());
  CHECK(summary->bytes == 10 * setup->store.shape().parameter_count());
  CHECK(summary_text(*summary).find("bf16 (first) and f32 (second)") != std::string::npos);
  CHECK(summary_value(*summary).get_string("moments") == "bf16 (first) and f32 (second)");
  CHECK(verify_checkpoint(path, 2)->bytes == summary->bytes);
  const std::string to = folder.path + "/b/step-00000002", again = folder.path + "/c/step-00000002";
  REQUIRE(reshard_checkpoint(path, to, moment_dims(2)).ok());
  CHECK(verify_checkpoint(to, 2)->damage.empty());
  CHECK(inspect_checkpoint(to)->types == summary->types);
  REQUIRE(reshard_checkpoint(to, again, moment_dims(1)).ok());
  const std::string shard = "/shard-00001-of-00001.safetensors";
  CHECK(*read_file(again + shard) == *read_file(path + shard));
  CHECK(export_checkpoint(to, folder.path + "/model", {}).ok());
  // A flipped bit of a bf16 moment is found.
  std::string bytes = *read_file(path + shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(write_file_atomic(path + shard, bytes).ok());
  CHECK(verify_checkpoint(path, 2)->damage.size() == 1);
}
