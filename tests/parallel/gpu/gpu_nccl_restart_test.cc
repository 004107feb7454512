// Restarts in the process over the communicators of NCCL: the code that a GPU runs, over a library that stands in for
// NCCL (tests/support/emulated_gpu/fake_nccl.cc) and emulated GPUs; ranks are threads.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/system/shared_library.h"
#include "base/text/text.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "engine/train/loop/training_loop.h"
#include "tests/parallel/gpu/training_on_gpus.h"
#include "tests/parallel/ordering_lead.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/scratch.h"

using namespace longhaul;
using namespace longhaul::test;

namespace nccl_restart {

constexpr int steps = 4;
const std::string library = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";

struct Case {
  ParallelDims dims;
  SetupOptions setup;
  NcclOptions nccl;
  std::int64_t deadline_ms = 20'000;
};
struct LoopRun {
  Status status = make_error(ErrorCode::internal, "this rank did not begin");
  TrainingOutcome outcome;
  std::vector<float> weights;
};

LoopRun run_rank(const Case& one, Rendezvous& rendezvous, int rank, const std::string& folder) {
  LoopRun run;
  const SystemClock clock;
  longhaul::testing::EmulatedGpu gpu(std::int64_t{4} << 30, false);
  HeartbeatPage page = HeartbeatPage::create(beat_page_path(folder, rank), rank).value();
  CommOptions options;
  options.clock = &clock, options.newest_epoch = &page.restart_word(), options.beat = &page;
  const auto runtime =
      NcclRuntime::start(gpu.device(), {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials},
                         rendezvous, rank, one.dims.world_size(), one.nccl);
  if (!runtime.ok()) return run;
  std::unique_ptr<Communicator> ranks = (*runtime)->world(1, options).value();
  const std::unique_ptr<Mesh> mesh = std::move(Mesh::create(one.dims, *ranks, one.deadline_ms)).value();
  {
    SetupOptions setup_options = one.setup;
    setup_options.gpu = &gpu, setup_options.check_contributions = true;
    TrainingSetup setup(8, steps, 2, mesh.get(), DType::f32, 32, setup_options);
    CheckpointStore store(clock, join_path(folder, "checkpoints"), RetentionPolicy{100});
    EventWriter events(clock, "", rank);
    InProcessRestart restart;
    restart.leave = [&] { setup.stages.clear(); };
    restart.join = [&](std::int64_t epoch) -> Result<std::vector<Llama*>> {
      LH_TRY(std::unique_ptr<Communicator> fresh, (*runtime)->world(static_cast<std::uint64_t>(epoch), options));
      LH_TRY(const std::unique_ptr<Mesh> made, Mesh::create(one.dims, *fresh, one.deadline_ms));
      *mesh = std::move(*made);
      ranks = std::move(fresh);
      setup.stages = setup.make_stages(2, setup_options);
      return setup.pointers();
    };
    TrainingLoopOptions loop_options;
    loop_options.snapshot_every_steps = 1, loop_options.snapshot_share_max = 1e9;  // whatever it costs
    loop_options.restart = &restart;
    const std::atomic<bool> stop{false};
    TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, &page, loop_options);
    const auto outcome = loop.run(nullptr);
    run.status = outcome.ok() ? Status() : outcome.error();
    if (outcome.ok()) {
      run.outcome = *outcome;
      const ParameterLayout whole(one.setup.shape);
      run.weights.resize(static_cast<std::size_t>(whole.flat_size()));
      run.status = gather_masters(*mesh, one.setup.shape, setup.store.layout(),
                                  {setup.store.masters(), setup.store.device()}, whole, run.weights);
    }
    // Until aborts that took too long have ended, as this process goes on.
    if (!outcome.ok()) SystemClock().sleep_ms(2'500);
  }
  return run;
}

struct Runs {
  std::vector<LoopRun> ranks;
  int orders = 0;
  double seconds = 0;
};

Runs run_all(Case one) {
  const longhaul::testing::Scratch scratch;
  one.nccl.library = library;
  const int count = one.dims.world_size();
  Runs runs;
  runs.ranks.resize(static_cast<std::size_t>(count));
  const SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  OrderingLead lead(scratch.path(), count);
  ThreadsRendezvous rendezvous;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back(
        [&, rank] { runs.ranks[static_cast<std::size_t>(rank)] = run_rank(one, rendezvous, rank, scratch.path()); });
  for (std::thread& thread : threads) thread.join();
  runs.orders = lead.finish();
  runs.seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  return runs;
}

// Once, in whichever rank comes there as the nth.
void plant(const std::string& point, int nth) {
  const longhaul::testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("plan"), format("{} error nth={}\n", point, nth)).ok());
  REQUIRE(load_fault_plan(scratch.file("plan")).ok());
}

void misbehave(const char* what, int rank) {
  static const SharedLibrary fake = SharedLibrary::open(std::span(&library, 1)).value();
  void (*set_rank)(const char*, int) = nullptr;
  REQUIRE(fake.find("fake_nccl_misbehave", set_rank));
  set_rank(what, rank);
}

}  // namespace nccl_restart

TEST_CASE("nccl: a fault of one rank is got over in the process by communicators of the next epoch, bit for bit") {
  using namespace nccl_restart;
  std::vector<Case> cases(2);
  cases[0].dims.dp_replicate = 2;
  cases[1].dims.dp_shard = 2, cases[1].dims.zero = 3;
  for (Case& one : cases) {
    one.nccl.close_ms = 60'000;
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const Runs undisturbed = run_all(one);
    CHECK(undisturbed.orders == 0);
    REQUIRE(undisturbed.ranks.front().status.ok());
    // The first passages of both ranks are those of the first step.
    for (const auto& [point, nth] : {std::pair("engine_step_begin", 5), std::pair("engine_backward", 11)}) {
      CAPTURE(point);
      plant(point, nth);
      const Runs disturbed = run_all(one);
      CHECK(disturbed.orders == 1);
      CHECK(disturbed.seconds < 40);  // nobody waits at the end for ranks that left the first epoch
      for (std::size_t rank = 0; rank < disturbed.ranks.size(); ++rank) {
        CAPTURE(rank);
        const LoopRun &a = undisturbed.ranks[rank], &b = disturbed.ranks[rank];
        const std::string problem = b.status.ok() ? "" : b.status.error().message();
        CHECK(problem == "");
        CHECK(b.outcome.restarts == 1);
        CHECK(a.outcome.loss == b.outcome.loss);
        CHECK(a.weights == b.weights);
      }
    }
  }
}

TEST_CASE(
    "nccl: where it does not let go of a communicator in time, no epoch follows and the process is to be renewed") {
  using namespace nccl_restart;
  Case one;
  one.dims.dp_replicate = 2;
  one.nccl.leave_ms = 100, one.nccl.close_ms = 100, one.deadline_ms = 3'000;
  plant("engine_backward", 11);
  misbehave("abort", -2);
  const Runs runs = run_all(one);
  misbehave("abort", -1);
  CHECK(runs.orders == 1);
  int refused = 0;
  for (const LoopRun& run : runs.ranks) {
    REQUIRE(!run.status.ok());
    const std::string problem = run.status.error().message();
    CAPTURE(problem);
    CHECK(run.outcome.restarts == 0);
    if (problem.find("did not let go") == std::string::npos) continue;
    ++refused;
    CHECK(run.status.error().code == ErrorCode::unavailable);
    CHECK(problem.find("start the process anew") != std::string::npos);
  }
  CHECK(refused > 0);
}
