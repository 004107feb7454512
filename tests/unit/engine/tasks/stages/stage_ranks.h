// A stage on several ranks, which are threads.
#pragma once

#include <thread>

#include "engine/comm/threads_communicator.h"
#include "engine/parallel/mesh/launch_ranks.h"
#include "tests/unit/engine/tasks/stages/stage_folder.h"

namespace longhaul {

// Ranks beside the layout, which only draw answers, and how a run begins.
struct BesideLayout {
  int drawing = 0;
  const Task* task = nullptr;  // of those ranks; null: that of the others
  bool stops = false;          // an order to stop is there from the beginning
};

// What each rank says.
inline std::vector<Status> run_in_layout(const StageFolder& folder, const Task& task, const std::string& out,
                                         const ParallelDims& dims, const BesideLayout& beside = {}) {
  const int ranks = dims.world_size() + beside.drawing;
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  std::vector<Status> status(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Launch launch;
      launch.output_dir = folder.at(out), launch.state_dir = folder.at(out + ".state");
      launch.events_path = folder.at(out + ".events.jsonl"), launch.attempt_key = "key";
      launch.dims = dims;
      const auto parted = LaunchRanks::create(dims, beside.drawing, world.communicator(rank, 1, options), 20'000);
      if (!parted.ok()) return void(status[static_cast<std::size_t>(rank)] = parted.error());
      Mesh& mesh = (*parted)->mesh();
      const ComputeContext compute(1);
      EventWriter events(clock, rank == 0 ? launch.events_path : "", rank);
      const std::atomic<bool> stop{beside.stops};
      const bool draws = rank >= dims.world_size();
      TaskRun run{draws && beside.task ? *beside.task : task,
                  launch,
                  clock,
                  compute,
                  mesh,
                  mesh.world(),
                  events,
                  nullptr,
                  stop};
      run.rollout_ranks = (*parted)->rollout_ranks();
      status[static_cast<std::size_t>(rank)] = run_stage(run);
    });
  for (std::thread& thread : threads) thread.join();
  return status;
}

inline void run_on_ranks(const StageFolder& folder, const Task& task, const std::string& out,
                         const ParallelDims& dims) {
  for (const Status& one : run_in_layout(folder, task, out, dims)) REQUIRE_MESSAGE(one.ok(), one.error().message());
}

// Replicas of each other.
inline void run_on_ranks(const StageFolder& folder, const Task& task, const std::string& out, int ranks) {
  ParallelDims dims;
  dims.dp_replicate = ranks;
  run_on_ranks(folder, task, out, dims);
}

// tp with sp, pp, and replicas that share as `zero` says.
inline ParallelDims stage_layout(int tp, int pp, int dp, int zero) {
  ParallelDims dims;
  dims.tp = tp, dims.sp = tp > 1, dims.pp = pp, dims.zero = zero;
  (zero > 0 ? dims.dp_shard : dims.dp_replicate) = dp;
  return dims;
}

}  // namespace longhaul
