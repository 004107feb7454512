// The plans of memory and of communication against what the engine holds and sends: every rank of many layouts, byte by
// byte.
#include <doctest/doctest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/text/text.h"
#include "contracts/plan/memory_plan.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/communication/communication_plan.h"
#include "tests/support/scratch.h"

// All memory that this program takes by `new`, Buffer's included; a sanitizer has a `new` of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LH_COUNTS_NEW 1
namespace {
std::atomic<std::int64_t> taken_by_new{0};

void* counted(void* memory) {
  if (memory == nullptr) std::abort();
  taken_by_new.fetch_add(static_cast<std::int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}
void give_back(void* memory) noexcept {
  if (memory != nullptr)
    taken_by_new.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(std::malloc(size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(to, (size + to - 1) / to * to));
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}
#endif

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr std::int64_t global_batch = 16, micro_batch = 2, length = 16;

struct PlannedCase {
  const char* name;
  ParallelDims dims;
  SetupOptions what;
  DType dtype = DType::f32;
};

ParallelDims dims_of(int tp, bool sp, int cp, int pp, int vp, int replicate, int shard, int zero, int ep = 1,
                     int etp = 1) {
  ParallelDims d;
  d.tp = tp, d.sp = sp, d.cp = cp, d.pp = pp, d.vp = vp, d.dp_replicate = replicate, d.dp_shard = shard, d.zero = zero;
  d.ep = ep, d.etp = etp;
  return d;
}

struct Chosen {
  ModelShape shape = training_shape(4);
  const char* schedule = "auto";
  std::vector<std::string> again = {};
  double dropout = 0;
  bool packed = false, overlap = true;
  ContextAttentionKind attention = ContextAttentionKind::ring;
  std::vector<std::int64_t> stage_layers = {};
  double capacity = 0;
  const char* balance = "aux";
  std::int64_t again_layers = 0;
  const char* moments = "f32";
  const char* recipe = "none";
  std::vector<std::string> adapted = {};  // LoRA of these
};

SetupOptions setup_of(const Chosen& chosen) {
  SetupOptions what(chosen.shape);
  what.pipeline.schedule = chosen.schedule, what.pipeline.stage_layers = chosen.stage_layers;
  what.recompute = recompute_from({chosen.again, chosen.again_layers}).value();
  what.dropout = chosen.dropout, what.packed = chosen.packed, what.overlap = chosen.overlap;
  what.context_attention = chosen.attention;
  what.moments = chosen.moments;
  what.low_precision.recipe = chosen.recipe;
  what.moe.capacity_factor = chosen.capacity, what.moe.balance = chosen.balance;
  if (!chosen.adapted.empty()) what.adapter.kind = "lora", what.adapter.targets = chosen.adapted;
  return what;
}

ModelShape biased_mixtral() {
  ModelShape shape = training_mixtral_shape();
  shape.router_score = "sigmoid", shape.router_bias = true, shape.n_shared_experts = 1;
  return shape;
}

std::vector<PlannedCase> dense_cases() {
  const ModelShape llama = training_shape(4), untied = training_shape(4, false), gpt2 = training_gpt2_shape();
  return {
      {"one rank", dims_of(1, false, 1, 1, 1, 1, 1, 0), setup_of({})},
      {"one rank, bf16", dims_of(1, false, 1, 1, 1, 1, 1, 0), setup_of({.shape = untied}), DType::bf16},
      {"tp", dims_of(2, false, 1, 1, 1, 1, 1, 0), setup_of({.dropout = 0.1}), DType::bf16},
      {"low precision, tp, sp, pp", dims_of(2, true, 1, 2, 1, 1, 1, 0), setup_of({.recipe = "delayed"}), DType::bf16},
      {"low precision, GPT-2", dims_of(1, false, 1, 1, 1, 2, 1, 0), setup_of({.shape = gpt2, .recipe = "mxfp8"})},
      {"tp, sp", dims_of(2, true, 1, 1, 1, 1, 1, 0), setup_of({.packed = true}), DType::bf16},
      {"tp, sp, everything again", dims_of(2, true, 1, 1, 1, 2, 1, 0), setup_of({.again = {"block"}, .dropout = 0.1}),
       DType::bf16},
      {"GPT-2, tp, sp, pp", dims_of(2, true, 1, 2, 1, 1, 1, 0), setup_of({.shape = gpt2, .again = {"norms"}})},
      {"GPT-2, ZeRO 3", dims_of(1, false, 1, 1, 1, 1, 2, 3), setup_of({.shape = gpt2}), DType::bf16},
      {"GPT-2, cp", dims_of(1, false, 2, 1, 1, 2, 1, 0), setup_of({.shape = gpt2, .packed = true})},
      {"pp, uneven", dims_of(1, false, 1, 2, 1, 2, 1, 0), setup_of({.stage_layers = {1, 3}})},
      {"pp, empty ends", dims_of(1, false, 1, 4, 1, 1, 1, 0), setup_of({.stage_layers = {0, 2, 2, 0}}), DType::bf16},
      {"interleaved", dims_of(1, false, 1, 2, 2, 1, 2, 1), setup_of({.again = {"attention"}})},
      {"interleaved, tp, no overlap", dims_of(2, true, 1, 2, 2, 1, 1, 0), setup_of({.shape = untied, .overlap = false}),
       DType::bf16},
      {"zero bubble", dims_of(1, false, 1, 2, 1, 1, 2, 1), setup_of({.schedule = "zb-h1", .again = {"feed_forward"}})},
      {"zero bubble, chunks", dims_of(2, false, 1, 2, 2, 1, 1, 0), setup_of({.schedule = "zb-h1", .again = {"block"}})},
      {"ZeRO 1, replicas", dims_of(1, false, 1, 1, 1, 2, 2, 1), setup_of({}), DType::bf16},
      {"bf16 moments, ZeRO 1", dims_of(1, false, 1, 1, 1, 1, 2, 1), setup_of({.moments = "bf16"}), DType::bf16},
      {"mixed moments, tp", dims_of(2, true, 1, 1, 1, 1, 1, 0), setup_of({.moments = "mixed"})},
      {"ZeRO 2, tp", dims_of(2, true, 1, 1, 1, 1, 2, 2), setup_of({}), DType::bf16},
      {"ZeRO 3", dims_of(1, false, 1, 1, 1, 1, 4, 3), setup_of({.again = {"norms", "activation"}, .again_layers = 2})},
      {"ZeRO 3, pp, untied", dims_of(1, false, 1, 2, 1, 2, 2, 3), setup_of({.shape = untied, .again = {"attention"}}),
       DType::bf16},
      {"ZeRO 3, no overlap", dims_of(2, true, 1, 1, 1, 1, 2, 3), setup_of({.overlap = false})},
      {"ring", dims_of(1, false, 4, 1, 1, 1, 1, 0), setup_of({.packed = true}), DType::bf16},
      {"ring, tp, ZeRO 1", dims_of(2, true, 2, 1, 1, 1, 2, 1), setup_of({.again = {"attention"}})},
      {"ring, padded", dims_of(1, false, 3, 1, 1, 1, 1, 0), setup_of({})},
      {"gathered keys, pp", dims_of(1, false, 2, 2, 1, 1, 1, 0),
       setup_of({.packed = true, .attention = ContextAttentionKind::gather}), DType::bf16},
      {"heads for tokens", dims_of(1, false, 2, 1, 1, 2, 1, 0),
       setup_of({.again = {"block"}, .packed = true, .attention = ContextAttentionKind::a2a})},
      {"heads for tokens, interleaved", dims_of(1, false, 2, 2, 2, 1, 1, 0),
       setup_of({.shape = llama, .attention = ContextAttentionKind::a2a}), DType::bf16},
  };
}

std::vector<PlannedCase> expert_cases() {
  const ModelShape plain = training_mixtral_shape(), biased = biased_mixtral();
  const std::vector<std::string> experts = {"q_proj", "w1", "w2", "w3"};
  return {
      {"experts, one rank", dims_of(1, false, 1, 1, 1, 1, 1, 0), setup_of({.shape = plain}), DType::bf16},
      {"experts on replicas", dims_of(1, false, 1, 1, 1, 2, 1, 0), setup_of({.shape = biased, .balance = "bias"})},
      {"experts, tp", dims_of(2, false, 1, 1, 1, 1, 1, 0), setup_of({.shape = biased, .balance = "bias"}), DType::bf16},
      {"experts, tp, sp, zero bubble", dims_of(2, true, 1, 2, 1, 1, 1, 0),
       setup_of({.shape = biased, .schedule = "zb-h1", .balance = "bias"}), DType::bf16},
      {"ep over replicas", dims_of(1, false, 1, 1, 1, 2, 1, 0, 2), setup_of({.shape = plain})},
      {"ep and etp, no overlap", dims_of(2, true, 1, 1, 1, 2, 1, 0, 2, 2), setup_of({.shape = plain, .overlap = false}),
       DType::bf16},
      {"experts again", dims_of(1, false, 1, 1, 1, 2, 1, 0),
       setup_of({.shape = biased, .again = {"block"}, .balance = "bias"})},
      {"ep and etp", dims_of(2, true, 1, 1, 1, 2, 1, 0, 2, 2), setup_of({.shape = plain}), DType::bf16},
      {"ep, ZeRO 1", dims_of(1, false, 1, 1, 1, 1, 4, 1, 2), setup_of({.shape = plain, .again = {"norms"}})},
      {"ep, ZeRO 2", dims_of(1, false, 1, 1, 1, 1, 4, 2, 2), setup_of({.shape = plain}), DType::bf16},
      {"ep, tp, ZeRO 3", dims_of(2, true, 1, 1, 1, 1, 2, 3, 2), setup_of({.shape = biased, .balance = "bias"})},
      {"ep, cp", dims_of(1, false, 2, 1, 1, 1, 1, 0, 2), setup_of({.shape = plain}), DType::bf16},
      {"Sinkhorn, cp", dims_of(1, false, 2, 1, 1, 1, 1, 0), setup_of({.shape = plain, .balance = "sinkhorn"})},
      {"capacity", dims_of(2, false, 1, 1, 1, 1, 1, 0), setup_of({.shape = plain, .capacity = 1.0})},
      {"adapter of experts, ep and etp", dims_of(2, true, 1, 1, 1, 2, 1, 0, 2, 2),
       setup_of({.shape = plain, .adapted = experts}), DType::bf16},
      {"adapter of experts, ep over replicas", dims_of(1, false, 1, 1, 1, 2, 1, 0, 2),
       setup_of({.shape = biased, .balance = "bias", .adapted = experts})},
      {"adapter of experts, ep, tp, ZeRO 2", dims_of(2, true, 1, 1, 1, 1, 2, 2, 2),
       setup_of({.shape = plain, .adapted = experts})},
  };
}

TrainingOutline outline_of(const PlannedCase& one) {
  TrainingOutline o;
  o.shape = one.what.shape, o.dims = one.dims, o.pipeline = one.what.pipeline, o.moe = one.what.moe;
  o.micro_batch_size = micro_batch, o.sequence_length = length;
  o.micro_batches = {static_cast<int>(global_batch / micro_batch / one.dims.dp())};
  o.bf16 = one.dtype == DType::bf16, o.recompute = one.what.recompute, o.dropout = one.what.dropout > 0;
  o.low_precision = one.what.low_precision.on(), o.adapter = one.what.adapter;
  constexpr const char* names[] = {"ring", "gather", "a2a"};
  o.cp_attention = names[static_cast<int>(one.what.context_attention)];
  o.overlap_weights = o.overlap_pipeline = o.overlap_tensor = o.overlap_experts = one.what.overlap;
  o.rows_min = one.what.pieces.rows_min, o.pieces_max = one.what.pieces.pieces_max;
  o.positions = o.first_key = one.what.packed;
  OptimizerSettings optimizer;
  optimizer.moments = one.what.moments;
  if (!one.what.offload_dir.empty()) optimizer.offload = "node_local";
  o.set_moments(optimizer);
  o.rope_positions = one.what.shape.max_position_embeddings;
  return o;
}

struct Measured {
  MemoryTable held;
  CommunicationTable sent;  // in the last step
  Status status;
};

std::vector<Measured> measure(const PlannedCase& one,
                              const std::function<Status(TrainingSetup&, Mesh&)>& afterwards = {}) {
  constexpr int steps = 3;
  std::vector<Measured> all(static_cast<std::size_t>(one.dims.world_size()));
  on_threads(one.dims, [&](int rank, Mesh& mesh) {
    Measured& mine = all[static_cast<std::size_t>(rank)];
    TrainingSetup setup(global_batch, steps, micro_batch, &mesh, one.dtype, 32, one.what);
    for (int step = 0; step < steps && mine.status.ok(); ++step) {
      const auto report = setup.trainer.step();
      if (!report.ok())
        mine.status = report.error();
      else
        mine.sent = report->traffic;
    }
    if (afterwards && mine.status.ok()) mine.status = afterwards(setup, mesh);
    mine.held = setup.memory.peak();
  });
  return all;
}

// Rows of experts go where the data says: on several ranks, and where they are dropped.
bool depends_on_data(const PlannedCase& one) {
  return one.dims.ep * one.dims.etp > 1 || one.what.moe.capacity_factor > 0;
}

void check_memory_of(const PlannedCase& one, const MemoryPlan& plan, const MemoryTable& held) {
  for (int i = 0; i < memory_categories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    CAPTURE(to_string(category));
    if (category == MemoryCategory::scratch || category == MemoryCategory::messages) continue;
    if (category == MemoryCategory::process) continue;
    if (category == MemoryCategory::experts && depends_on_data(one)) {
      CHECK(held[category] <= plan.experts_max);
      CHECK(held[category] > 0);
      continue;
    }
    CHECK(held[category] == plan.bytes[category]);
  }
}

void check_case(const PlannedCase& one) {
  INFO(one.name, ": ", one.dims.to_string(), " ", dtype_name(one.dtype));
  const TrainingOutline outline = outline_of(one);
  const std::vector<Measured> ranks = measure(one);
  AxisTraffic planned_rows, sent_rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const Measured& mine = ranks[rank];
    REQUIRE_MESSAGE(mine.status.ok(), (mine.status.ok() ? "" : mine.status.error().message()));
    const RankCoordinates at = coordinates_of(one.dims, static_cast<int>(rank));
    const auto memory = plan_training_memory(outline, at);
    REQUIRE(memory.ok());
    check_memory_of(one, *memory, mine.held);
    const auto sent = plan_communication(outline, at);
    REQUIRE(sent.ok());
    for (int i = 0; i < mesh_axes; ++i) {
      const auto axis = static_cast<MeshAxis>(i);
      CAPTURE(to_string(axis));
      if (axis == MeshAxis::ep && depends_on_data(one)) {
        planned_rows.given += (*sent)[axis].given, sent_rows.given += mine.sent[axis].given;
        continue;
      }
      // Pairs of ranks are given their rows one by one instead of all rows once.
      if (axis != MeshAxis::tp || !one.what.overlap) CHECK(mine.sent[axis].given == (*sent)[axis].given);
      CHECK(mine.sent[axis].sent == (*sent)[axis].sent);
    }
  }
  if (one.what.moe.capacity_factor == 0 && !one.what.overlap)
    CHECK(sent_rows.given == planned_rows.given);  // what one lacks another has
}

// Under ThreadSanitizer, which looks for races and not at bytes, some of them.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t every = 4;
#else
constexpr std::size_t every = 1;
#endif

void check_cases(const std::vector<PlannedCase>& cases) {
  for (std::size_t i = 0; i < cases.size(); i += every) check_case(cases[i]);
}

}  // namespace

TEST_CASE("every rank holds and sends what was planned, to the byte") {
  check_cases(dense_cases());
}

TEST_CASE("with experts, too, but for the rows that follow the data") {
  check_cases(expert_cases());
}

// A checkpoint that is staged copies them into memory with all else; one that is not fetches a piece at a time.
void check_checkpoint(const ParallelDims& dims, const char* moments, bool staged) {
  INFO(dims.to_string(), " ", moments, staged ? ", staged" : "");
  const longhaul::testing::Scratch scratch;
  const SystemClock clock;
  const CheckpointStore store(clock, scratch.file("checkpoints"), 1);
  ModelShape shape = training_shape(3);  // three blocks of moments
  shape.hidden_size = 256, shape.intermediate_size = 1024, shape.head_dim = 64;
  PlannedCase one{"moments on a disk", dims, setup_of({.shape = shape, .moments = moments})};
  one.what.offload_dir = scratch.path(), one.what.offload_block = MomentStreamOptions().block_elements;
  const std::vector<Measured> ranks = measure(one, [&](TrainingSetup& setup, Mesh& mesh) -> Status {
    CheckpointSaverOptions options;
    options.asynchronous = staged, options.account = &setup.memory.of(MemoryCategory::checkpoint);
    CheckpointSaver saver(clock, store, options);
    LH_CHECK(saver.start(mesh.world(), test::state_of(setup)));
    return saver.finish(mesh.world()).ok() ? Status() : make_error(ErrorCode::io, "no checkpoint");
  });
  TrainingOutline outline = outline_of(one);
  outline.staged_checkpoints = staged;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const Measured& mine = ranks[rank];
    REQUIRE_MESSAGE(mine.status.ok(), (mine.status.ok() ? "" : mine.status.error().message()));
    const auto plan = plan_training_memory(outline, coordinates_of(dims, static_cast<int>(rank)));
    REQUIRE(plan.ok());
    CHECK(plan->bytes[MemoryCategory::checkpoint] > 0);
    check_memory_of(one, *plan, mine.held);
  }
}

TEST_CASE("with moments on a disk a checkpoint takes what was planned, to the byte, staged or not") {
  const std::vector<std::pair<ParallelDims, const char*>> layouts = {{dims_of(1, false, 1, 1, 1, 1, 1, 0), "bf16"},
                                                                     {dims_of(1, false, 1, 1, 1, 1, 2, 1), "f32"},
                                                                     {dims_of(2, true, 1, 1, 1, 2, 1, 0), "mixed"},
                                                                     {dims_of(1, false, 1, 1, 1, 1, 2, 3), "bf16"}};
  for (std::size_t i = 0; i < layouts.size(); i += every)
    for (const bool staged : {false, true}) check_checkpoint(layouts[i].first, layouts[i].second, staged);
}

TEST_CASE("a buffer that the plan does not know turns the comparison red") {
  PlannedCase one{"one rank", dims_of(1, false, 1, 1, 1, 1, 1, 0), setup_of({})};
  TrainingSetup setup(global_batch, 1, micro_batch, nullptr, one.dtype, 32, one.what);
  REQUIRE(setup.trainer.step().ok());
  const auto plan = plan_training_memory(outline_of(one), {});
  REQUIRE(plan.ok());
  const auto equal = [&] {
    MemoryTable held = setup.memory.peak();
    for (const MemoryCategory category : {MemoryCategory::scratch, MemoryCategory::process})
      held[category] = plan->bytes[category];
    return held == plan->bytes;
  };
  CHECK(equal());
  const Tensor more(DType::f32, Shape{1}, &setup.memory.of(MemoryCategory::activations));
  CHECK_FALSE(equal());
}

#ifdef LH_COUNTS_NEW
// Beside what is counted a training keeps names, lists and compiled products, which more tokens or larger matrices do
// not change.
TEST_CASE("all memory that grows with tokens or with weights is counted") {
  struct Taken {
    double by_new = 0, counted = 0;
  };
  const auto take = [](std::int64_t sequences, std::int64_t ffn, ModelShape shape) {
    shape.intermediate_size = ffn;
    if (shape.is_moe()) shape.moe_intermediate_size = ffn;
    const std::int64_t before = taken_by_new;
    TrainingSetup setup(2 * sequences, 3, sequences, nullptr, DType::bf16, 32, shape);
    for (int step = 0; step < 3; ++step) REQUIRE(setup.trainer.step().ok());
    return Taken{static_cast<double>(taken_by_new - before), static_cast<double>(setup.memory.all().bytes_now)};
  };
  for (const ModelShape& shape : {training_shape(), training_gpt2_shape(), training_mixtral_shape()}) {
    CAPTURE(shape.architecture);
    // Compiled products are kept for the process: they are there when it is done a second time. Of a mixture they have
    // another size in every batch.
    const auto measured = [&](std::int64_t sequences, std::int64_t ffn) {
      (void)take(sequences, ffn, shape);
      return take(sequences, ffn, shape);
    };
    const double bar = shape.is_moe() ? 0.05 : 0.005;
    const Taken small = measured(64, 128);
    for (const Taken& large : {measured(192, 128), measured(64, 512)}) {
      CHECK(large.counted > small.counted + 1e6);
      CHECK(large.by_new - small.by_new == doctest::Approx(large.counted - small.counted).epsilon(bar));
    }
  }
}
#endif
