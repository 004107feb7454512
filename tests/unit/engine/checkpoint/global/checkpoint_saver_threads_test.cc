// Saving beside a training, with several ranks as threads: also under ThreadSanitizer.
#include <doctest/doctest.h>

#include "engine/checkpoint/global/checkpoint_load.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// Every rank agrees with the others whether all are ready, as a training does after each step.
bool all_ready(Mesh& mesh, CheckpointSaver& saver) {
  const double mine = saver.ready() ? 1 : 0;
  std::vector<double> all(static_cast<std::size_t>(mesh.world().size()));
  if (!mesh.world().all_gather({&mine, 1}, all).ok()) return false;
  return std::all_of(all.begin(), all.end(), [](double ready) { return ready > 0; });
}

}  // namespace

TEST_CASE("several ranks save while they train, and another layout goes on with any of the checkpoints") {
  ParallelDims dims;
  dims.tp = 2, dims.dp_shard = 2, dims.zero = 1;
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore store(clock, folder.path, 100);
  constexpr int steps = 6;
  std::atomic<int> whole{0};
  std::vector<std::vector<double>> losses(4);
  on_threads(dims, [&](int rank, Mesh& mesh) {
    TrainingSetup setup(16, steps, 2, &mesh, DType::f32, 32);
    CheckpointSaver saver(clock, store, {});
    for (int step = 1; step <= steps; ++step) {
      losses[static_cast<std::size_t>(rank)].push_back(setup.trainer.step()->loss);
      const bool ready = all_ready(mesh, saver);
      if (saver.busy() && ready) {
        const auto saved = saver.advance(mesh.world());
        if (!saved.ok()) return;
        whole += saved->has_value();
      }
      if (step % 2 != 0) continue;
      if (saver.busy()) {
        if (!saver.finish(mesh.world()).ok()) return;
        ++whole;
      }
      if (!saver.start(mesh.world(), test::state_of(setup)).ok()) return;
    }
    if (saver.finish(mesh.world()).ok()) ++whole;
  });
  CHECK(whole == 4 * steps / 2);
  REQUIRE(store.list()->size() == steps / 2);
  const auto saved = store.list();
  for (const std::string& name : *saved) {
    CAPTURE(name);
    TrainingSetup alone(16, steps, 2, nullptr, DType::f32, 32);
    TrainingState state = test::state_of(alone);
    REQUIRE(load_checkpoint(join_path(folder.path, name), state, 3).ok());
    alone.trainer.progress() = state.progress;
    alone.store.refresh_compute_copy(alone.context);
    std::vector<double> resumed(losses[0].begin(), losses[0].begin() + state.progress.step);
    for (std::int64_t step = state.progress.step; step < steps; ++step) resumed.push_back(alone.trainer.step()->loss);
    CHECK(worst_relative(losses[0], resumed) <= 1e-5);
  }
}
