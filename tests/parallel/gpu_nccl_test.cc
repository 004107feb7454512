// Trainings of several ranks over the communicators of NCCL: the code that a GPU runs, over a library that stands in
// for NCCL (tests/support/fake_nccl.cc) and emulated GPUs; ranks are threads.
#include <doctest/doctest.h>

#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/ops/cuda/tree_rows.h"
#include "tests/parallel/training_on_gpus.h"
#include "tests/support/emulated_device.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

void on_gpus_over_nccl(const ParallelDims& dims, const std::function<void(int, Mesh&, Gpu&)>& body) {
  const SystemClock clock;
  ThreadsRendezvous rendezvous;
  CommOptions options;
  options.clock = &clock;
  NcclOptions nccl;
  nccl.library = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedGpu gpu(false);
      const auto runtime = NcclRuntime::start(gpu.device(), {cuda::tree_rows, cuda::write_word}, rendezvous, rank,
                                              dims.world_size(), nccl);
      if (!runtime.ok()) return;
      const auto world = (*runtime)->world(1, options);
      if (!world.ok()) return;
      const auto mesh = Mesh::create(dims, **world, 60'000);
      if (mesh.ok()) body(rank, **mesh, gpu);
    });
  for (std::thread& thread : threads) thread.join();
}

using Dims = ParallelDims;
using Options = SetupOptions;

}  // namespace

TEST_CASE("nccl: trainings over it follow the curve of one rank: dp, ZeRO, tp, pp, cp") {
  constexpr int steps = 3;
  const std::vector<GpuLayout> layouts = {
      gpu_layout("dp, contributions checked",
                 [](Dims& d, Options& o) { d.dp_replicate = 2, o.check_contributions = true; }),
      gpu_layout("zero 3", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 3; }),
      gpu_layout("tp, sp", [](Dims& d, Options&) { d.tp = 2, d.sp = true; }),
      gpu_layout("pp", [](Dims& d, Options&) { d.pp = 2; }),
      gpu_layout("ring", [](Dims& d, Options&) { d.cp = 2; }),
  };
  const RankRun alone = train_one_rank(steps, DType::f32, layouts.back().options);
  for (const GpuLayout& layout : layouts) {
    CAPTURE(layout.name);
    for (const RankRun& run : train_on_gpus(on_gpus_over_nccl, layout.dims, steps, DType::f32, layout.options)) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(alone.losses, run.losses) <= 1e-4);
      CHECK(worst_relative(alone.norms, run.norms) <= 1e-3);
    }
  }
}
