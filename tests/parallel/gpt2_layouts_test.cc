// GPT-2 on every axis: its biases, learned positions and norms with two vectors are dealt as the Llama family's
// parameters are, and the curve stays that of one rank.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint_store.h"
#include "engine/model/model_folder.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int gpt2_steps = 4;
#else
constexpr int gpt2_steps = 20;
#endif

SetupOptions gpt2_setup() {
  SetupOptions options;
  options.architecture = "gpt2";
  return options;
}

ParallelDims gpt2_layout(int tp, bool sp, int pp, int dp_replicate, int dp_shard = 1, int zero = 1, int vp = 1) {
  ParallelDims dims;
  dims.tp = tp, dims.sp = sp, dims.pp = pp, dims.dp_replicate = dp_replicate, dims.dp_shard = dp_shard;
  dims.zero = dp_shard > 1 ? zero : 0, dims.vp = vp;
  return dims;
}

std::vector<ParallelDims> gpt2_layouts() {
  return {gpt2_layout(1, false, 1, 4),       gpt2_layout(1, false, 1, 1, 4),  gpt2_layout(2, false, 1, 1),
          gpt2_layout(2, true, 1, 1),        gpt2_layout(4, true, 1, 1),      gpt2_layout(1, false, 2, 1),
          gpt2_layout(2, true, 2, 1),        gpt2_layout(2, false, 2, 1, 2),  gpt2_layout(2, true, 1, 1, 2, 2),
          gpt2_layout(1, false, 1, 1, 4, 3), gpt2_layout(2, true, 2, 1, 2, 3)};
}

// Biases that are not zero and norms that are not one from the first step on.
void unsettle(TrainingSetup& setup) {
  for (const FlatParameter& p : setup.store.layout().parameters()) {
    if (p.spec.shape.size() != 1) continue;
    const Philox random{77, parameter_stream(p.spec.name)};
    std::vector<float> values(static_cast<std::size_t>(p.end - p.begin));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (p.spec.init == ParameterSpec::Init::ones ? 1.0F : 0.0F) +
                  0.3F * static_cast<float>(random.normal(static_cast<std::uint64_t>(p.box.offset[0]) + i));
    setup.store.put(setup.context, p, values);
  }
  setup.store.refresh_compute_copy(setup.context);
}

}  // namespace

TEST_CASE("GPT-2 in every layout follows the curve of one rank") {
  const auto at_first = [](TrainingSetup& setup, int step) {
    if (step == 0) unsettle(setup);
  };
  Mesh alone;
  const RankRun one = train_rank(alone, gpt2_steps, DType::f32, at_first, gpt2_setup());
  REQUIRE(one.status.ok());
  CHECK(one.losses.back() < one.losses.front());
  for (const ParallelDims& dims : gpt2_layouts()) {
    CAPTURE(dims.to_string());
    const double bar = dims.tp * dims.pp == 1 && dims.zero == 0 ? 0 : 1e-5;
    const auto runs = train_on_threads(
        dims, gpt2_steps, DType::f32, [&](int, TrainingSetup& setup, int step) { at_first(setup, step); },
        gpt2_setup());
    for (const RankRun& run : runs) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(one.losses, run.losses) <= bar);
      CHECK(worst_relative(one.norms, run.norms) <= 10 * bar);
    }
  }
}

TEST_CASE("a bias that one rank of a tp group has wrong turns GPT-2's comparison red") {
  const RankRun one = train_one_rank(gpt2_steps, DType::f32, gpt2_setup());
  const auto spoil = [](int rank, TrainingSetup& setup, int step) {
    if (rank != 1 || step != 1) return;
    const FlatParameter& bias = setup.store.layout().find("transformer.h.0.mlp.c_fc.bias");
    setup.store.masters()[static_cast<std::size_t>(bias.begin)] += 1;
  };
  const auto runs = train_on_threads(gpt2_layout(2, false, 1, 1), gpt2_steps, DType::f32, spoil, gpt2_setup());
  CHECK(worst_relative(one.losses, runs[0].losses) > 1e-5);
}

TEST_CASE("GPT-2's folder is cut into the shards of the rank that reads it") {
  char name[] = "/tmp/longhaul-gpt2-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const ComputeContext context(1);
  const ModelShape shape = training_shape(gpt2_setup());
  ParameterStore whole(shape, DType::f32);
  initialize_parameters(context, whole, 9);
  ModelFolderOptions options;
  options.config.shape = shape;
  REQUIRE(write_model_folder(folder + "/model", whole, options).ok());
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
  const RankRun whole = train_one_rank(gpt2_steps, DType::f32, gpt2_setup());
  constexpr int half = gpt2_steps / 2;
  std::atomic<int> saved{0};
  on_threads(gpt2_layout(2, true, 2, 1), [&](int, Mesh& mesh) {
    TrainingSetup setup(16, gpt2_steps, 2, &mesh, DType::f32, 32, gpt2_setup());
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
      TrainingSetup setup(16, gpt2_steps, 2, &mesh, DType::f32, 32, gpt2_setup());
      TrainingState state = state_of(setup);
      const auto loaded = CheckpointStore(clock, folder, 1).load_newest(mesh.world(), state);
      if (!loaded.ok() || !loaded->has_value()) return;
      setup.trainer.progress() = state.progress;
      setup.store.refresh_compute_copy(setup.context);
      std::vector<double> losses(whole.losses.begin(), whole.losses.begin() + half);
      for (int i = half; i < gpt2_steps; ++i) losses.push_back(setup.trainer.step()->loss);
      good += worst_relative(whole.losses, losses) <= 1e-5;
    });
    CHECK(good == read.world_size());
  }
  CHECK(remove_tree(folder).ok());
}
