// GPT-2 on every axis: its biases, learned positions and norms with two vectors are distributed as the Llama family's
// parameters are, and the curve stays that of one rank.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/model/store/model_folder.h"
#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/write_model_folder.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

ParallelDims gpt2_layout(int tp, bool sp, int pp, int dp_replicate, int dp_shard = 1) {
  ParallelDims dims;
  dims.tp = tp, dims.sp = sp, dims.pp = pp, dims.dp_replicate = dp_replicate, dims.dp_shard = dp_shard;
  dims.zero = dp_shard > 1;
  return dims;
}

ParallelDims gpt2_zero3(ParallelDims dims) {
  dims.zero = 3;
  return dims;
}

std::vector<ParallelDims> gpt2_layouts() {
  return {gpt2_layout(1, false, 1, 4),
          gpt2_layout(1, false, 1, 1, 4),
          gpt2_layout(2, false, 1, 1),
          gpt2_layout(2, true, 1, 1),
          gpt2_layout(4, true, 1, 1),
          gpt2_layout(1, false, 2, 1),
          gpt2_layout(2, true, 2, 1),
          gpt2_layout(2, false, 2, 1, 2),
          gpt2_layout(2, true, 1, 1, 2),
          gpt2_zero3(gpt2_layout(1, false, 1, 1, 2)),
          gpt2_zero3(gpt2_layout(1, false, 2, 1, 2))};
}

// Biases that are not zero and norms that are not one from the first step on.
void unsettle(TrainingSetup& setup) {
  // Other ranks may still be reading this one's share of the weights: a unit that was used has been gathered by all.
  for (const FlatParameter& p : setup.store.layout().parameters()) (void)setup.store.vector(p.begin, p.end - p.begin);
  for (const FlatParameter& p : setup.store.layout().parameters()) {
    if (p.spec.shape.size() != 1) continue;
    const Philox random{77, parameter_stream(p.spec.name)};
    setup.store.layout().owned().for_each_in({p.begin, p.end}, [&](FlatRange flat, FlatRange packed) {
      for (std::int64_t i = 0; i < flat.size(); ++i)
        setup.store.masters()[static_cast<std::size_t>(packed.begin + i)] +=
            0.3F *
            static_cast<float>(random.normal(static_cast<std::uint64_t>(p.box.offset[0] + flat.begin - p.begin + i)));
    });
  }
  setup.store.refresh_compute_copy(setup.context);
}

}  // namespace

TEST_CASE("GPT-2 in every layout follows the curve of one rank") {
  const ModelShape shape = training_gpt2_shape();
  const auto at_first = [](TrainingSetup& setup, int step) {
    if (step == 0) unsettle(setup);
  };
  Mesh alone;
  const RankRun one = train_rank(alone, curve_steps, DType::f32, at_first, shape);
  REQUIRE(one.status.ok());
  CHECK(one.losses.back() < one.losses.front());
  for (const ParallelDims& dims : gpt2_layouts()) {
    CAPTURE(dims.to_string());
    const double bar = dims.tp * dims.pp == 1 && dims.zero == 0 ? 0 : 1e-5;
    const auto runs = train_on_threads(
        dims, curve_steps, DType::f32, [&](int, TrainingSetup& setup, int step) { at_first(setup, step); }, shape);
    for (const RankRun& run : runs) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(one.losses, run.losses) <= bar);
      CHECK(worst_relative(one.norms, run.norms) <= 10 * bar);
    }
  }
}

TEST_CASE("a bias that one rank of a tp group has wrong turns GPT-2's comparison red") {
  const ModelShape shape = training_gpt2_shape();
  const RankRun one = train_one_rank(curve_steps, DType::f32, shape);
  const auto spoil = [](int rank, TrainingSetup& setup, int step) {
    if (rank != 1 || step != 1) return;
    const FlatParameter& bias = setup.store.layout().find("transformer.h.0.mlp.c_fc.bias");
    setup.store.masters()[static_cast<std::size_t>(bias.begin)] += 1;
  };
  const auto runs = train_on_threads(gpt2_layout(2, false, 1, 1), curve_steps, DType::f32, spoil, shape);
  CHECK(worst_relative(one.losses, runs[0].losses) > 1e-5);
}

TEST_CASE("GPT-2's folder is cut into the shards of the rank that reads it") {
  char name[] = "/tmp/longhaul-gpt2-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const ComputeContext context(1);
  const ModelShape shape = training_gpt2_shape();
  ParameterStore whole(shape, DType::f32);
  initialize_parameters(context, whole, 9);
  ModelFolderOptions options;
  options.config.shape = shape;
  REQUIRE(testing::write_model_folder(folder + "/model", whole, options).ok());
  std::atomic<int> equal{0};
  on_threads(gpt2_layout(2, false, 2, 1), [&](int, Mesh& mesh) {
    const ComputeContext own(1);
    ParameterStore store(shape, DType::f32, nullptr, {mesh.dims(), mesh.at()});
    if (!load_model_weights(own, folder + "/model", store).ok()) return;
    std::vector<float> all(whole.masters().size());
    (void)gather_masters(mesh, shape, store.layout(), store.masters(), whole.layout(), all).ok();
    equal += std::equal(all.begin(), all.end(), whole.masters().begin());
  });
  CHECK(equal == 4);
  CHECK(remove_tree(folder).ok());
}

TEST_CASE("what one layout saves of GPT-2 another goes on with") {
  char name[] = "/tmp/longhaul-gpt2-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const ModelShape shape = training_gpt2_shape();
  const RankRun whole = train_one_rank(curve_steps, DType::f32, shape);
  const int half = curve_steps / 2;
  std::atomic<int> saved{0};
  on_threads(gpt2_layout(2, true, 2, 1), [&](int, Mesh& mesh) {
    TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, shape);
    for (int i = 0; i < half; ++i)
      if (!setup.trainer.step().ok()) return;
    saved += CheckpointStore(clock, folder, 1).save(mesh.world(), state_of(setup)).ok();
  });
  CHECK(saved == 4);
  for (const ParallelDims& read :
       {gpt2_layout(1, false, 1, 1), gpt2_layout(1, false, 1, 1, 4), gpt2_layout(4, true, 1, 1)}) {
    CAPTURE(read.to_string());
    std::atomic<int> good{0};
    on_threads(read, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, shape);
      TrainingState state = state_of(setup);
      const auto loaded = CheckpointStore(clock, folder, 1).load_newest(mesh.world(), state);
      if (!loaded.ok() || !loaded->has_value()) return;
      setup.trainer.progress() = state.progress;
      setup.store.refresh_compute_copy(setup.context);
      std::vector<double> losses(whole.losses.begin(), whole.losses.begin() + half);
      for (int i = half; i < curve_steps; ++i) losses.push_back(setup.trainer.step()->loss);
      good += worst_relative(whole.losses, losses) <= 1e-5;
    });
    CHECK(good == read.world_size());
  }
  CHECK(remove_tree(folder).ok());
}
