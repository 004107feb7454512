// One tiny training, run by any number of ranks; what each rank saw.
#pragma once

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "base/system/clock.h"
#include "engine/comm/threads_communicator.h"
#include "engine/parallel/pipeline/gather_masters.h"
#include "tests/unit/engine/train/training_setup.h"

namespace longhaul::test {

struct RankRun {
  std::vector<double> losses, norms;
  std::vector<double> balance_losses;  // of experts
  double heldout_loss = 0;             // after the last step, of samples that are no whole number of micro-batches
  std::vector<float> weights;          // of the first replica: all of them, in the flat order of one rank
  std::int64_t held = 0;               // weights on this rank
  std::int64_t moments = 0;            // of one kind
  std::int64_t activations = 0;        // bytes, of the first stage on this rank
  Status status;
};

// `before_step` may spoil something on one rank.
inline RankRun train_rank(Mesh& mesh, int steps, DType dtype,
                          const std::function<void(TrainingSetup&, int step)>& before_step = {},
                          const SetupOptions& options = {}) {
  RankRun run;
  TrainingSetup setup(options.global_batch, steps, 2, &mesh, dtype, 32, options);
  run.held = setup.store.layout().flat_size();
  run.activations = setup.model.activation_bytes();
  run.moments = static_cast<std::int64_t>(setup.trainer.optimizer().exp_avg().size());
  for (int step = 0; step < steps && run.status.ok(); ++step) {
    if (before_step) before_step(setup, step);
    auto report = setup.trainer.step();
    if (!report.ok()) {
      run.status = report.error();
      break;
    }
    run.losses.push_back(report->loss);
    run.norms.push_back(report->grad_norm);
    run.balance_losses.push_back(report->balance_loss);
  }
  if (!run.status.ok()) return run;
  MadeUpSource heldout(16, 37, 11);
  heldout.packed = options.packed, heldout.before = setup.source.before;
  const auto judged = setup.trainer.evaluate(heldout, 11);
  if (!judged.ok()) {
    run.status = judged.error();
    return run;
  }
  run.heldout_loss = judged->loss / judged->count;
  const ParameterLayout whole(setup.store.shape());
  run.weights.resize(static_cast<std::size_t>(whole.flat_size()));
  run.status = gather_masters(mesh, setup.store.shape(), setup.store.layout(),
                              {setup.store.masters(), setup.store.device()}, whole, run.weights);
  return run;
}
inline RankRun train_one_rank(int steps, DType dtype, const SetupOptions& options = {}) {
  Mesh alone;
  SetupOptions plain = options;
  plain.pipeline = {}, plain.overlap = true, plain.recompute = {};
  return train_rank(alone, steps, dtype, {}, plain);
}

// Every rank of a layout as a thread with its mesh.
inline void on_threads(const ParallelDims& dims, const std::function<void(int rank, Mesh&)>& body) {
  const SystemClock clock;
  const ThreadsWorld world(dims.world_size());
  CommOptions options;
  options.clock = &clock;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      const auto communicator = world.communicator(rank, 1, options);
      const auto mesh = Mesh::create(dims, *communicator, 20'000);
      if (mesh.ok()) body(rank, **mesh);
    });
  for (std::thread& thread : threads) thread.join();
}

inline ParallelDims data_parallel(int ranks) {
  ParallelDims dims;
  dims.dp_replicate = ranks;
  return dims;
}

inline std::vector<RankRun> train_on_threads(
    const ParallelDims& dims, int steps, DType dtype,
    const std::function<void(int rank, TrainingSetup&, int step)>& before_step = {}, const SetupOptions& options = {}) {
  std::vector<RankRun> runs(static_cast<std::size_t>(dims.world_size()));
  on_threads(dims, [&](int rank, Mesh& mesh) {
    const auto spoil = [&](TrainingSetup& setup, int step) {
      if (before_step) before_step(rank, setup, step);
    };
    runs[static_cast<std::size_t>(rank)] = train_rank(mesh, steps, dtype, spoil, options);
  });
  return runs;
}

// What a checkpoint of it holds.
inline TrainingState state_of(TrainingSetup& setup) {
  TrainingState state;
  state.layout = &setup.store.layout();
  state.shape = setup.store.shape();
  state.masters = setup.store.masters(), state.exp_avg = setup.trainer.optimizer().exp_avg(),
  state.exp_avg_sq = setup.trainer.optimizer().exp_avg_sq();
  state.progress = setup.trainer.progress();
  return state;
}

inline double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return worst;
}

}  // namespace longhaul::test
