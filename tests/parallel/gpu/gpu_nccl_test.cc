// Trainings of several ranks over the communicators of NCCL: the code that a GPU runs, over a library that stands in
// for NCCL (tests/support/emulated_gpu/fake_nccl.cc) and emulated GPUs; ranks are threads.
#include <doctest/doctest.h>

#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "tests/parallel/expert_curves.h"
#include "tests/parallel/gpu/training_on_gpus.h"
#include "tests/support/emulated_gpu/emulated_device.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// `staging`: null, or an account for each rank.
void on_gpus_over_nccl(const ParallelDims& dims, const std::function<void(int, Mesh&, Gpu&)>& body,
                       std::vector<MemoryAccount>* staging = nullptr) {
  const SystemClock clock;
  ThreadsRendezvous rendezvous;
  CommOptions options;
  options.clock = &clock;
  NcclOptions given;
  given.library = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedGpu gpu(std::int64_t{4} << 30, false);
      NcclOptions nccl = given;
      if (staging != nullptr) nccl.memory = &(*staging)[static_cast<std::size_t>(rank)];
      const auto runtime = NcclRuntime::start(
          gpu.device(), {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials}, rendezvous,
          rank, dims.world_size(), nccl);
      if (!runtime.ok()) return;
      const auto world = (*runtime)->world(1, options);
      if (!world.ok()) return;
      const auto mesh = Mesh::create(dims, **world, 60'000);
      if (mesh.ok()) body(rank, **mesh, gpu);
    });
  for (std::thread& thread : threads) thread.join();
}

const OnGpus over_nccl = [](const ParallelDims& dims, const std::function<void(int, Mesh&, Gpu&)>& body) {
  on_gpus_over_nccl(dims, body);
};

using Dims = ParallelDims;
using Options = SetupOptions;

}  // namespace

TEST_CASE("nccl: trainings over it follow the curve of one rank: dp, ZeRO, tp, pp, cp") {
  constexpr int steps = 2;
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
    for (const RankRun& run : train_on_gpus(over_nccl, layout.dims, steps, DType::f32, layout.options)) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(alone.losses, run.losses) <= 1e-4);
      CHECK(worst_relative(alone.norms, run.norms) <= 1e-3);
    }
  }
}

TEST_CASE("nccl: norms of an adapter's rows, of which each rank has some columns, are summed among the GPUs") {
  const GpuLayout layout =
      gpu_layout("dora, tp", [](Dims& d, Options& o) { d.tp = 2, o.adapter.kind = "dora", o.adapter.rank = 3; });
  const RankRun alone = train_one_rank(1, DType::f32, layout.options);
  for (const RankRun& run : train_on_gpus(over_nccl, layout.dims, 1, DType::f32, layout.options)) {
    REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
    CHECK(worst_relative(alone.losses, run.losses) <= 1e-4);
    CHECK(worst_relative(alone.norms, run.norms) <= 1e-3);
  }
}

TEST_CASE("nccl: rows travel to experts on other ranks and back") {
  constexpr int steps = 2;
  GpuLayout layout = gpu_layout("ep", [](Dims& d, Options&) { d.dp_shard = 2, d.ep = 2; });
  const std::int64_t batch = layout.options.global_batch;
  layout.options = mixtral(1.0), layout.options.global_batch = batch;
  const std::vector<RankRun> host = train_on_threads(layout.dims, steps, DType::f32, {}, layout.options);
  REQUIRE(host.front().losses.size() == steps);
  for (const RankRun& run : train_on_gpus(over_nccl, layout.dims, steps, DType::f32, layout.options)) {
    REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
    CHECK(worst_relative(host.front().losses, run.losses) <= 1e-4);
    CHECK(worst_relative(host.front().norms, run.norms) <= 1e-3);
  }
}

TEST_CASE(
    "nccl: after the first step of a training nothing is taken from the driver, and staging memory stays as it is") {
  const auto experts = [](Options& o) {
    const std::int64_t batch = o.global_batch;
    o = mixtral(1.0), o.global_batch = batch;
  };
  const std::vector<GpuLayout> layouts = {
      gpu_layout("dp, contributions checked",
                 [](Dims& d, Options& o) { d.dp_replicate = 2, o.check_contributions = true; }),
      gpu_layout("zero 3, contributions checked",
                 [](Dims& d, Options& o) { d.dp_shard = 2, d.zero = 3, o.check_contributions = true; }),
      gpu_layout("tp, sp", [](Dims& d, Options&) { d.tp = 2, d.sp = true; }),
      gpu_layout("pp", [](Dims& d, Options&) { d.pp = 2; }),
      gpu_layout("ep", [&](Dims& d, Options& o) { experts(o), d.dp_shard = d.ep = 2; }),
      gpu_layout("all experts on each rank", [&](Dims& d, Options& o) { experts(o), d.dp_shard = 2, d.zero = 2; }),
  };
  for (const GpuLayout& layout : layouts) {
    CAPTURE(layout.name);
    std::vector<MemoryAccount> staging(2);
    std::vector<std::int64_t> warm(2), warm_calls(2), later(2), later_calls(2);
    const auto body = [&](int rank, Mesh& mesh, Gpu& gpu) {
      const auto at = static_cast<std::size_t>(rank);
      const auto& device = static_cast<longhaul::testing::EmulatedGpu&>(gpu).device();
      Options options = layout.options;
      options.gpu = &gpu;
      TrainingSetup setup(8, 6, 2, &mesh, DType::f32, 8, options);
      if (!setup.trainer.step().ok()) return;
      warm[at] = staging[at].bytes_now, warm_calls[at] = device.driver_allocations();
      for (int step = 0; step < 2; ++step)
        if (!setup.trainer.step().ok()) return;
      later[at] = staging[at].bytes_now, later_calls[at] = device.driver_allocations();
    };
    on_gpus_over_nccl(layout.dims, body, &staging);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CAPTURE(rank);
      CHECK(warm[rank] > 0);
      CHECK(later[rank] == warm[rank]);
      CHECK(later_calls[rank] == warm_calls[rank]);
    }
  }
}

TEST_CASE(
    "nccl: checksums of contributions are taken where those lie: what comes to the host does not grow with them") {
  const auto bytes_of_a_step = [](const Dims& dims, std::int64_t hidden, bool checks) {
    std::vector<std::int64_t> bytes(2), waits(2);
    on_gpus_over_nccl(dims, [&](int rank, Mesh& mesh, Gpu& gpu) {
      auto& device = static_cast<longhaul::testing::EmulatedGpu&>(gpu).device();
      Options options;
      options.gpu = &gpu, options.check_contributions = checks;
      options.shape.hidden_size = hidden, options.shape.intermediate_size = 4 * hidden;
      TrainingSetup setup(8, 4, 2, &mesh, DType::f32, 32, options);
      REQUIRE(setup.trainer.step().ok());  // the first one also finds out how many sums there are
      const std::int64_t bytes_before = device.bytes_to_host(), waits_before = device.waits();
      REQUIRE(setup.trainer.step().ok());
      bytes[static_cast<std::size_t>(rank)] = device.bytes_to_host() - bytes_before;
      waits[static_cast<std::size_t>(rank)] = device.waits() - waits_before;
    });
    return std::pair(bytes, waits);
  };
  for (const auto& change : {+[](Dims& d) { d.dp_replicate = 2; }, +[](Dims& d) { d.dp_shard = 2, d.zero = 2; }}) {
    Dims dims;
    change(dims);
    const std::string layout = dims.to_string();
    CAPTURE(layout);
    const auto [small, waits] = bytes_of_a_step(dims, 32, true);
    const auto [large, waits_large] = bytes_of_a_step(dims, 128, true);
    const auto [small_unchecked, waits_unchecked] = bytes_of_a_step(dims, 32, false);
    const auto [large_unchecked, waits_large_unchecked] = bytes_of_a_step(dims, 128, false);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CAPTURE(rank);
      MESSAGE(small[rank], " and ", large[rank], " bytes to the host, ", small_unchecked[rank], " and ",
              large_unchecked[rank], " without checksums");
      CHECK(small[rank] - small_unchecked[rank] == large[rank] - large_unchecked[rank]);
      CHECK(small[rank] > small_unchecked[rank]);
      CHECK(large[rank] < 4'096);  // of a megabyte of gradients
      CHECK(waits[rank] == waits_unchecked[rank] + 1);
      CHECK(waits_large[rank] == waits_large_unchecked[rank] + 1);
    }
  }
}

TEST_CASE("nccl: a flipped bit of a contribution is found, its rank is named, and the step can be made again") {
  for (const int zero : {0, 2}) {
    CAPTURE(zero);
    Dims dims;
    (zero == 0 ? dims.dp_replicate : dims.dp_shard) = 2, dims.zero = zero;
    std::vector<std::optional<SilentCorruption>> found(2);
    std::vector<double> losses(2), undisturbed(2);
    const auto train = [&](std::optional<int> wrong) {
      on_gpus_over_nccl(dims, [&](int rank, Mesh& mesh, Gpu& gpu) {
        const auto at = static_cast<std::size_t>(rank);
        Options options;
        options.gpu = &gpu, options.check_contributions = true;
        TrainingSetup setup(8, 4, 2, &mesh, DType::f32, 32, options);
        if (!setup.trainer.step().ok()) return;
        if (wrong) {
          if (rank == *wrong) setup.trainer.guard_of_sums().plant(12'345);
          if (!setup.trainer.step().ok()) found[at] = setup.trainer.corruption();
        }
        for (int step = 1; step < 3; ++step)
          if (const auto report = setup.trainer.step(); report.ok()) (wrong ? losses : undisturbed)[at] = report->loss;
      });
    };
    train({});
    for (const int wrong : {0, 1}) {
      CAPTURE(wrong);
      found.assign(2, {}), losses.assign(2, 0);
      train(wrong);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        REQUIRE(found[rank]);
        CHECK(found[rank]->rank == wrong);
        CHECK(found[rank]->other == -1);
        CHECK(losses[rank] > 0);
        CHECK(losses[rank] == undisturbed[rank]);
      }
    }
  }
}
