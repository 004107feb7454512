// One tiny training, run by any number of ranks; what each rank saw.
#pragma once

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/comm/threads_communicator.h"
#include "tests/unit/engine/train/training_setup.h"

namespace longhaul::test {

struct RankRun {
  std::vector<double> losses, norms;
  std::vector<float> weights;
  Status status;
};

// `before_step` may spoil something on one rank.
inline RankRun train_rank(CollectiveGroup group, int steps, DType dtype,
                          const std::function<void(TrainingSetup&, int step)>& before_step = {}) {
  RankRun run;
  TrainingSetup setup(16, steps, 2, group, dtype, 32);
  for (int step = 0; step < steps && run.status.ok(); ++step) {
    if (before_step) before_step(setup, step);
    auto report = setup.trainer.step();
    if (!report.ok()) {
      run.status = report.error();
      break;
    }
    run.losses.push_back(report->loss);
    run.norms.push_back(report->grad_norm);
  }
  run.weights.assign(setup.store.masters().begin(), setup.store.masters().end());
  return run;
}

inline std::vector<RankRun> train_on_threads(
    int ranks, int steps, DType dtype,
    const std::function<void(int rank, TrainingSetup&, int step)>& before_step = {}) {
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  std::vector<RankRun> runs(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto communicator = world.communicator(rank, 1, options);
      runs[static_cast<std::size_t>(rank)] =
          train_rank(CollectiveGroup(*communicator), steps, dtype, [&](TrainingSetup& setup, int step) {
            if (before_step) before_step(rank, setup, step);
          });
    });
  for (std::thread& thread : threads) thread.join();
  return runs;
}

inline double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return worst;
}

}  // namespace longhaul::test
