// Every row of the table of features that GPUs run trains a step on emulated ones, whose messages go by way of the host
// or over the library that stands in for NCCL; every row that they refuse is refused.
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/staged_communicator.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "tests/parallel/engine_feature_walk.h"
#include "tests/support/emulated_gpu/emulated_device.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

using Body = std::function<void(int, Mesh&, Gpu*)>;

void on_staged(const ParallelDims& dims, const Body& body) {
  const SystemClock clock;
  const ThreadsWorld world(dims.world_size());
  CommOptions options;
  options.clock = &clock;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedGpu gpu;
      const auto communicator = make_staged_communicator(gpu.device(), world.communicator(rank, 1, options));
      const auto mesh = Mesh::create(dims, *communicator, 60'000);
      if (mesh.ok()) body(rank, **mesh, &gpu);
    });
  for (std::thread& thread : threads) thread.join();
}

void on_nccl(const ParallelDims& dims, const Body& body) {
  const SystemClock clock;
  ThreadsRendezvous rendezvous;
  CommOptions options;
  options.clock = &clock;
  NcclOptions nccl;
  nccl.library = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedGpu gpu(std::int64_t{4} << 30, false);
      const auto runtime = NcclRuntime::start(
          gpu.device(), {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials}, rendezvous,
          rank, dims.world_size(), nccl);
      if (!runtime.ok()) return;
      const auto world = (*runtime)->world(1, options);
      if (!world.ok()) return;
      const auto mesh = Mesh::create(dims, **world, 60'000);
      if (mesh.ok()) body(rank, **mesh, &gpu);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("GPUs: each feature that runs trains a step on emulated ones, each that is refused is refused by its text") {
  // Of the emulation: attention by cuDNN is held to the reference by unit_engine_ops over a library that stands in for
  // it, kernels are timed on a real GPU alone.
  const std::vector<std::string> nowhere = {"`attention_backend = \"cudnn\"`", "`trace.kernels`"};
  const auto on_one = [](const std::function<void(Gpu*)>& body) {
    longhaul::testing::EmulatedGpu gpu;
    body(&gpu);
  };
  WalkedRows walked;
  for (const EngineFeature& row : engine_features()) {
    const bool over_nccl = row.name == "`communicator = \"nccl\"`";
    for (const ModelFamily family : row.families)
      walk_row(row, family, true, over_nccl ? on_nccl : on_staged, on_one, nowhere, walked);
  }
  MESSAGE(walked.text("GPUs", "emulated"));
  CHECK(walked.ran >= 80);
  CHECK(walked.refused >= 25);
  CHECK(walked.nowhere.size() == nowhere.size());
}
