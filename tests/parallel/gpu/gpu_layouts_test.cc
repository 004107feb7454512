// Several ranks with a GPU each: threads, each with an emulated GPU, whose messages go by way of the host
// (engine/comm/staged_communicator.h). Every layout follows the curve of one rank on the processor. Memory of a device
// that the host touches ends the program.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>

#include "base/digest/philox.h"
#include "contracts/plan/memory_plan.h"
#include "engine/comm/staged_communicator.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/parallel/tensor/row_sum.h"
#include "tests/parallel/expert_curves.h"
#include "tests/parallel/gpu/training_on_gpus.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/long_run.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

void on_gpus_by_way_of_the_host(const ParallelDims& dims, const std::function<void(int, Mesh&, Gpu&)>& body) {
  const SystemClock clock;
  const ThreadsWorld world(dims.world_size());
  CommOptions options;
  options.clock = &clock;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      testing::EmulatedGpu gpu;
      const auto communicator = make_staged_communicator(gpu.device(), world.communicator(rank, 1, options));
      const auto mesh = Mesh::create(dims, *communicator, 60'000);
      if (mesh.ok()) body(rank, **mesh, gpu);
    });
  for (std::thread& thread : threads) thread.join();
}

std::vector<RankRun> train_staged(const GpuLayout& layout, int steps, DType dtype) {
  return train_on_gpus(on_gpus_by_way_of_the_host, layout.dims, steps, dtype, layout.options);
}

void check_layout(const GpuLayout& layout, const RankRun& alone, int steps, DType dtype, double bar) {
  INFO(layout.name);
  for (const RankRun& run : train_staged(layout, steps, dtype)) {
    REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
    CHECK(worst_relative(alone.losses, run.losses) <= bar);
    CHECK(worst_relative(alone.norms, run.norms) <= 10 * bar);
    CHECK(worst_relative({alone.heldout_loss}, {run.heldout_loss}) <= bar);
  }
}

using Dims = ParallelDims;
using Options = SetupOptions;

}  // namespace

TEST_CASE("ranks with a GPU each follow the curve of one rank: dp, ZeRO, tp, pp, cp") {
  constexpr int steps = 2;  // and a held-out loss after them
  const std::vector<GpuLayout> layouts = {
      gpu_layout("dp", [](Dims& d, Options&) { d.dp_replicate = 2; }),
      gpu_layout("zero 1", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 1; }),
      gpu_layout("zero 2", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 2; }),
      gpu_layout("zero 3", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 3; }),
      gpu_layout("tp", [](Dims& d, Options&) { d.tp = 2; }),
      gpu_layout("tp, sp", [](Dims& d, Options&) { d.tp = 2, d.sp = true; }),
      gpu_layout("pp", [](Dims& d, Options&) { d.pp = 2; }),
      gpu_layout("ring", [](Dims& d, Options&) { d.cp = 2; }),
      gpu_layout("gather", [](Dims& d, Options& o) { d.cp = 2, o.context_attention = ContextAttentionKind::gather; }),
      gpu_layout("a2a", [](Dims& d, Options& o) { d.cp = 2, o.context_attention = ContextAttentionKind::a2a; }),
  };
  const RankRun alone = train_one_rank(steps, DType::f32, layouts.front().options);
  for (const GpuLayout& layout : layouts) check_layout(layout, alone, steps, DType::f32, 1e-4);
}

TEST_CASE("experts over ranks with a GPU each follow the processor's ranks: beside every axis, and rows that travel") {
  constexpr int steps = 2;
  // Every second layout, beginning at another one for the next model; all in the long test, and of the processor's
  // ranks.
  int turn = 0;
  for (const ExpertModel& model : expert_models()) {
    const auto layout_of = [&](const char* name, const auto& change) {
      GpuLayout layout = gpu_layout(name, change);
      layout.options = model.what, layout.options.global_batch = small_batch(layout.dims);
      return layout;
    };
    const std::vector<GpuLayout> layouts = {
        layout_of("dp", [](Dims& d, Options&) { d.dp_replicate = 2; }),
        layout_of("zero 3", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 3; }),
        layout_of("pp", [](Dims& d, Options&) { d.pp = 2; }),
        layout_of("tp", [](Dims& d, Options&) { d.tp = 2; }),
        layout_of("tp, sp, ep", [](Dims& d, Options&) { d.tp = 2, d.sp = true, d.ep = 2; }),
        layout_of("cp", [](Dims& d, Options&) { d.cp = 2; }),
        layout_of("ep", [](Dims& d, Options&) { d.dp_shard = 2, d.ep = 2; }),
        layout_of("ep of 4", [](Dims& d, Options&) { d.dp_shard = 4, d.ep = 4; }),
    };
    // Of the same layout: where a choice between two experts is close, other layouts may choose otherwise.
    for (const GpuLayout& layout : layouts) {
      if (turn++ % 2 != 0 && !testing::long_run()) continue;
      INFO(model.name);
      const std::vector<RankRun> host = train_on_threads(layout.dims, steps, DType::f32, {}, layout.options);
      REQUIRE(host.front().losses.size() == steps);
      check_layout(layout, host.front(), steps, DType::f32, 1e-4);
    }
    ++turn;
  }
}

TEST_CASE("experts over ranks with a GPU each, beside that: ZeRO, pipelines, rows sent at once, bf16") {
  struct Case {
    const char* name;
    DType dtype;
    double bar;
    std::function<void(Dims&, Options&)> change;
  };
  const Case cases[] = {
      {"zero 1", DType::f32, 1e-4, [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 1; }},
      {"ep, zero 3", DType::f32, 1e-4, [](Dims& d, Options&) { d.dp_shard = 2, d.ep = 2, d.zero = 3; }},
      {"ep, pp", DType::f32, 1e-4, [](Dims& d, Options&) { d.dp_shard = 2, d.ep = 2, d.pp = 2; }},
      {"ep, at once", DType::f32, 1e-4, [](Dims& d, Options& o) { d.dp_shard = 2, d.ep = 2, o.overlap = false; }},
      {"ep, bf16", DType::bf16, 2e-2, [](Dims& d, Options&) { d.dp_shard = 2, d.ep = 2; }},
      {"etp, bf16", DType::bf16, 2e-2,
       [](Dims& d, Options& o) { d.tp = d.etp = 2, d.sp = true, o.global_batch = 4, o.shape.num_hidden_layers = 1; }},
      {"etp, at once, an adapter of experts", DType::f32, 1e-4,
       [](Dims& d, Options& o) {
         d.tp = d.etp = 2, d.sp = true, o.overlap = false, o.global_batch = 4, o.shape.num_hidden_layers = 1;
         o.adapter.kind = "dora", o.adapter.rank = 3, o.adapter.targets = {"w1", "w2"};
       }},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    GpuLayout layout{c.name, {}, mixtral()};
    c.change(layout.dims, layout.options);
    layout.options.global_batch = small_batch(layout.dims);
    const std::vector<RankRun> host = train_on_threads(layout.dims, 2, c.dtype, {}, layout.options);
    REQUIRE(host.front().losses.size() == 2);
    check_layout(layout, host.front(), 2, c.dtype, c.bar);
  }
}

TEST_CASE("what a layout may have beside that: schedules, documents, GPT-2, bf16, an adapter, no overlap") {
  constexpr int steps = 2;
  struct Case {
    GpuLayout layout;
    DType dtype = DType::f32;
    double bar = 1e-4;
  };
  const auto adapter = [](Options& o) { o.adapter.kind = "lora", o.adapter.rank = 3; };
  const auto pipeline = [](Options& o, const char* schedule) {
    o.shape = training_shape(4), o.pipeline.schedule = schedule;
  };
  std::vector<Case> cases = {
      {gpu_layout("interleaved", [&](Dims& d, Options& o) { d.pp = 2, d.vp = 2, pipeline(o, "interleaved"); })},
      {gpu_layout("zero bubble", [&](Dims& d, Options& o) { d.pp = 2, pipeline(o, "zb-h1"); })},
      {gpu_layout("ring, documents", [](Dims& d, Options& o) { d.cp = 2, o.packed = true; })},
      {gpu_layout(
          "a2a, documents",
          [](Dims& d, Options& o) { d.cp = 2, o.packed = true, o.context_attention = ContextAttentionKind::a2a; })},
      {gpu_layout("GPT-2, tp, sp",
                  [](Dims& d, Options& o) { d.tp = 2, d.sp = true, o.shape = training_gpt2_shape(); })},
      {gpu_layout("output of its own, tp", [](Dims& d, Options& o) { d.tp = 2, o.shape = training_shape(2, false); })},
      {gpu_layout("tp, sp, in bf16", [](Dims& d, Options&) { d.tp = 2, d.sp = true; }), DType::bf16, 2e-2},
      {gpu_layout("zero 3, in bf16", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 3; }), DType::bf16, 2e-2},
      {gpu_layout("tp, sp, without overlap", [](Dims& d, Options& o) { d.tp = 2, d.sp = true, o.overlap = false; })},
      {gpu_layout("pp, without overlap", [](Dims& d, Options& o) { d.pp = 2, o.overlap = false; })},
      {gpu_layout("ring, without overlap", [](Dims& d, Options& o) { d.cp = 2, o.overlap = false; })},
      {gpu_layout("adapter, zero 2", [&](Dims& d, Options& o) { d.dp_shard = 2, d.zero = 2, adapter(o); })},
      {gpu_layout("adapter whose input drops, tp, sp",
                  [&](Dims& d, Options& o) { d.tp = 2, d.sp = true, adapter(o), o.adapter.dropout = 0.3; })},
      {gpu_layout("dora, tp", [&](Dims& d, Options& o) { d.tp = 2, adapter(o), o.adapter.kind = "dora"; })},
      {gpu_layout("bottleneck, tp, sp",
                  [&](Dims& d, Options& o) {
                    d.tp = 2, d.sp = true, o.adapter.kind = "bottleneck", o.adapter.bottleneck_size = 4;
                  })},
      {gpu_layout("adapter, zero 3", [&](Dims& d, Options& o) { d.dp_shard = 2, d.zero = 3, adapter(o); })},
      {gpu_layout(
          "adapter over nf4, zero 3",
          [&](Dims& d, Options& o) { d.dp_shard = 2, d.zero = 3, adapter(o), o.adapter.base_weights = "nf4"; })},
      {gpu_layout("adapted table and norms of their own, tp, sp",
                  [&](Dims& d, Options& o) {
                    d.tp = 2, d.sp = true, o.shape = training_shape(2, false), adapter(o);
                    o.adapter.targets = {"embed_tokens", "q_proj"};
                    o.adapter.modules_to_save = {"lm_head", "norm", "input_layernorm"};
                  })},
      {gpu_layout("prompt, tp, sp",
                  [&](Dims& d, Options& o) {
                    d.tp = 2, d.sp = true, o.adapter.kind = "prompt", o.adapter.virtual_tokens = 3;
                  })},
      {gpu_layout("prefix, pp",
                  [&](Dims& d, Options& o) { d.pp = 2, o.adapter.kind = "prefix", o.adapter.virtual_tokens = 3; })},
      {gpu_layout("adapter, pp, in bf16", [&](Dims& d, Options& o) { d.pp = 2, adapter(o); }), DType::bf16, 2e-2},
      {gpu_layout("adapter of experts, ep",
                  [&](Dims& d, Options& o) {
                    d.dp_replicate = d.ep = 2, o.shape = training_mixtral_shape(), adapter(o);
                    o.adapter.targets = {"w1", "w2", "w3"};
                  })},
  };
  for (Case& one : cases) {
    one.layout.options.global_batch = small_batch(one.layout.dims);
    check_layout(one.layout, train_one_rank(steps, one.dtype, one.layout.options), steps, one.dtype, one.bar);
  }
}

TEST_CASE("memory of an adapter's training on a GPU is what was planned") {
  for (const char* kind : {"lora", "dora", "bottleneck", "prefix", "nf4"}) {
    CAPTURE(kind);
    const bool coded = std::string(kind) == "nf4";
    testing::EmulatedGpu gpu;
    SetupOptions options;
    options.gpu = &gpu, options.adapter.kind = coded ? "lora" : kind;
    if (coded) options.adapter.base_weights = kind;
    options.adapter.virtual_tokens = 3;
    TrainingSetup setup(8, 2, 2, nullptr, DType::bf16, 32, options);
    REQUIRE(setup.trainer.step().ok());
    TrainingOutline outline;
    outline.shape = options.shape, outline.adapter = options.adapter;
    outline.micro_batch_size = 2, outline.sequence_length = 16, outline.micro_batches = {4};
    const auto plan = plan_training_memory(outline, {});
    REQUIRE(plan.ok());
    const MemoryTable held = setup.memory.peak();
    for (const MemoryCategory category :
         {MemoryCategory::weights, MemoryCategory::gathered_weights, MemoryCategory::master, MemoryCategory::gradients,
          MemoryCategory::optimizer}) {
      CAPTURE(to_string(category));
      CHECK(held[category] == plan->bytes[category]);
    }
  }
}

TEST_CASE("ranks with a GPU each, twice: the same bits") {
  for (const GpuLayout& layout : {gpu_layout("tp, sp", [](Dims& d, Options&) { d.tp = 2, d.sp = true; }),
                                  gpu_layout("zero 3", [](Dims& d, Options&) { d.dp_shard = 2, d.zero = 3; }),
                                  gpu_layout("ring", [](Dims& d, Options&) { d.cp = 2; })}) {
    CAPTURE(layout.name);
    const std::vector<RankRun> one = train_staged(layout, 2, DType::bf16), two = train_staged(layout, 2, DType::bf16);
    for (std::size_t rank = 0; rank < one.size(); ++rank) {
      REQUIRE(one[rank].status.ok());
      CHECK(one[rank].losses == two[rank].losses);
      CHECK(one[rank].norms == two[rank].norms);
      CHECK(one[rank].weights == two[rank].weights);
    }
  }
}

TEST_CASE("two ranks that share the micro-batches give the bits of one rank with a GPU") {
  testing::EmulatedGpu gpu;
  Mesh alone;
  SetupOptions options;
  const GpuLayout dp = gpu_layout("dp", [](Dims& d, Options&) { d.dp_replicate = 2; });
  options = dp.options, options.gpu = &gpu;
  const RankRun one = train_rank(alone, 2, DType::f32, {}, options);
  REQUIRE(one.status.ok());
  for (const RankRun& run : train_staged(dp, 2, DType::f32)) {
    REQUIRE(run.status.ok());
    CHECK(run.losses == one.losses);
    CHECK(run.weights == one.weights);
  }
}

TEST_CASE("a flipped bit of a contribution that lies on a device is found, and its rank is named") {
  for (const int wrong : {0, 1}) {
    std::vector<std::optional<SilentCorruption>> found(2);
    std::vector<Status> undisturbed(2);
    ParallelDims dims;
    dims.dp_shard = 2, dims.zero = 2;
    on_gpus_by_way_of_the_host(dims, [&](int rank, Mesh& mesh, Gpu& gpu) {
      const auto at = static_cast<std::size_t>(rank);
      SetupOptions options;
      options.gpu = &gpu, options.check_contributions = true;
      TrainingSetup setup(8, 4, 2, &mesh, DType::f32, 32, options);
      undisturbed[at] = setup.trainer.step().ok() ? Status() : make_error(ErrorCode::internal, "nothing was wrong");
      if (rank == wrong) setup.trainer.guard_of_sums().plant(37);
      if (!setup.trainer.step().ok()) found[at] = setup.trainer.corruption();
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(undisturbed[rank].ok());
      REQUIRE(found[rank]);
      CHECK(found[rank]->rank == wrong);
    }
  }
}

TEST_CASE("a sum of rows on devices has the bits of one collective, whatever the number of ranks") {
  constexpr std::int64_t columns = 5;
  for (const int ranks : {3, 4})
    for (const bool overlap : {true, false}) {
      CAPTURE(ranks);
      CAPTURE(overlap);
      std::atomic<int> good{0};
      on_gpus_by_way_of_the_host(data_parallel(ranks), [&](int rank, Mesh& mesh, Gpu& gpu) {
        const ComputeContext context(gpu.device(), gpu.ops());
        MemoryAccount place;
        place.device = &gpu.device();
        const std::int64_t tokens = 2 * ranks;
        std::vector<float> mine(static_cast<std::size_t>(tokens * columns));
        const Philox random{3, static_cast<std::uint64_t>(rank)};
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<float>(random.normal(i));
        Tensor partial(DType::f32, {tokens, columns}, &place), landing(DType::f32, {tokens, columns}, &place);
        Tensor out(DType::f32, {2, columns}, &place);
        copy_in(context, mine, partial);
        RowSum sum(mesh.data_communicator(), true, 1, 20'000);
        const std::vector<RowRange> pieces = sum.pieces(tokens, {1, 2});
        sum.start(partial, landing, tokens, columns, out, pieces, overlap);
        for (std::size_t piece = 0; piece < pieces.size(); ++piece) sum.give();
        sum.finish(context);
        std::vector<float> got(2 * columns), want = mine;
        copy_out(context, out, View(got).reshaped({2, columns}));
        if (!sum.status().ok() || !mesh.data().sum_along_tree(want).ok()) return;
        good += std::equal(got.begin(), got.end(), want.begin() + 2 * columns * rank);
      });
      CHECK(good == ranks);
    }
}

TEST_CASE("a thread may have two emulated GPUs, one of which goes before the other") {
  testing::EmulatedGpu one;
  auto two = std::make_unique<testing::EmulatedGpu>();
  const auto fill_there = [](testing::EmulatedGpu& gpu, float value) {
    MemoryAccount place;
    place.device = &gpu.device();
    Tensor x(DType::f32, {100}, &place);
    fill(gpu.context(), x, value);
    std::vector<float> got(100);
    copy_out(gpu.context(), x, View(got));
    return got.back();
  };
  CHECK(fill_there(one, 1.0F) == 1.0F);
  CHECK(fill_there(*two, 2.0F) == 2.0F);
  two.reset();
  CHECK(fill_there(one, 3.0F) == 3.0F);
}
