// An adapter on every way to distribute ranks follows the curve of one rank.
#include <doctest/doctest.h>

#include <map>

#include "base/text/text.h"
#include "contracts/plan/memory_plan.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

struct AdapterLayout {
  const char* kind;
  ParallelDims dims;
  std::string schedule = "auto";
};

ParallelDims layout_of(int pp, int tp, bool sp, int cp, int dp, int zero) {
  ParallelDims dims;
  dims.pp = pp, dims.tp = tp, dims.sp = sp, dims.cp = cp, dims.zero = zero;
  (zero > 0 ? dims.dp_shard : dims.dp_replicate) = dp;
  return dims;
}

std::vector<AdapterLayout> adapter_layouts() {
  return {{"lora", layout_of(1, 2, false, 1, 1, 0)},          {"lora", layout_of(1, 2, true, 1, 2, 1)},
          {"lora", layout_of(2, 1, false, 1, 2, 2)},          {"lora", layout_of(2, 2, true, 1, 1, 0)},
          {"lora", layout_of(2, 1, false, 1, 1, 0), "zb-h1"}, {"lora", layout_of(1, 1, false, 2, 2, 0)},
          {"lora", layout_of(1, 2, false, 1, 2, 3)},          {"lora", layout_of(2, 1, false, 1, 2, 3)},
          {"dora", layout_of(1, 1, false, 1, 4, 3)},          {"dora", layout_of(2, 1, false, 2, 1, 0)},
          {"dora", layout_of(1, 2, false, 1, 1, 0)},          {"dora", layout_of(2, 2, true, 1, 2, 1)},
          {"dora", layout_of(1, 1, false, 1, 2, 2)},          {"ia3", layout_of(1, 2, true, 2, 1, 0)},
          {"ia3", layout_of(2, 1, false, 1, 2, 1)},           {"prompt", layout_of(1, 2, false, 1, 1, 0)},
          {"prompt", layout_of(1, 2, true, 1, 2, 1)},         {"prompt", layout_of(2, 1, false, 1, 2, 2)},
          {"prompt", layout_of(2, 2, true, 1, 1, 0)},         {"prompt", layout_of(2, 1, false, 1, 1, 0), "zb-h1"},
          {"prompt", layout_of(1, 1, false, 2, 2, 0)},        {"prompt", layout_of(1, 2, false, 2, 1, 0)},
          {"prompt", layout_of(1, 1, false, 1, 2, 3)},        {"p-tuning", layout_of(1, 2, true, 1, 1, 0)},
          {"p-tuning", layout_of(2, 1, false, 1, 2, 1)},      {"p-tuning", layout_of(1, 1, false, 2, 2, 1)},
          {"p-tuning", layout_of(2, 1, false, 1, 2, 2)},      {"p-tuning", layout_of(1, 2, true, 1, 2, 3)},
          {"prefix", layout_of(1, 2, true, 1, 2, 1)},         {"prefix", layout_of(2, 1, false, 1, 2, 2)},
          {"prefix", layout_of(2, 2, false, 1, 1, 0)},        {"prefix", layout_of(2, 1, false, 1, 1, 0), "zb-h1"},
          {"prefix", layout_of(1, 1, false, 2, 2, 0)},        {"prefix", layout_of(1, 2, false, 2, 1, 0)},
          {"prefix", layout_of(1, 1, false, 1, 2, 3)}};
}

std::vector<AdapterLayout> bottleneck_layouts() {
  return {{"bottleneck", layout_of(1, 2, true, 1, 2, 1)},  {"bottleneck", layout_of(2, 1, false, 1, 2, 2)},
          {"bottleneck", layout_of(2, 2, false, 1, 1, 0)}, {"bottleneck", layout_of(2, 2, true, 1, 1, 0), "zb-h1"},
          {"bottleneck", layout_of(1, 1, false, 2, 2, 0)}, {"bottleneck", layout_of(1, 2, true, 2, 1, 0)},
          {"bottleneck", layout_of(1, 1, false, 1, 2, 3)}};
}

}  // namespace

TEST_CASE("an adapter follows the curve of one rank in every layout") {
  constexpr int steps = 4;
  std::vector<AdapterLayout> layouts = adapter_layouts();
  for (const AdapterLayout& layout : bottleneck_layouts()) layouts.push_back(layout);
  for (const bool tied : {true, false})
    for (const AdapterLayout& layout : layouts) {
      CAPTURE(layout.kind);
      CAPTURE(layout.dims.to_string());
      SetupOptions options(training_shape(2, tied));
      options.adapter.kind = layout.kind, options.adapter.rank = 3, options.adapter.virtual_tokens = 5;
      if (options.adapter.low_rank())
        options.adapter.ranks = {{"k_proj", 2}, {"model.layers.1.mlp.*", 5}}, options.adapter.alphas = {{"o_proj", 2}};
      options.adapter.bottleneck_size = 6;
      if (!tied && options.adapter.changes_weights())
        options.adapter.modules_to_save = {"embed_tokens", "lm_head", "norm", "input_layernorm"};
      const RankRun one = train_one_rank(steps, DType::f32, options);
      options.pipeline.schedule = layout.schedule;
      for (const RankRun& run : train_on_threads(layout.dims, steps, DType::f32, {}, options)) {
        REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
        CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
        CHECK(std::abs(run.heldout_loss / one.heldout_loss - 1) <= 1e-5);
      }
    }
}

TEST_CASE("an adapter of the table of tokens, which tp splits by rows, follows the curve of one rank") {
  SetupOptions options(training_shape(2, false));
  options.adapter.kind = "lora", options.adapter.rank = 3, options.adapter.targets = {"embed_tokens", "q_proj"};
  const RankRun one = train_one_rank(3, DType::f32, options);
  for (const ParallelDims& dims : {layout_of(1, 2, true, 1, 2, 1), layout_of(2, 2, false, 1, 1, 0),
                                   layout_of(2, 1, false, 1, 2, 3), layout_of(1, 1, false, 2, 2, 2)}) {
    CAPTURE(dims.to_string());
    for (const RankRun& run : train_on_threads(dims, 3, DType::f32, {}, options)) {
      REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
      CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
    }
  }
}

TEST_CASE("what an adapter drops of its input is the same in every layout, and where it is computed again") {
  constexpr int steps = 4;
  for (const bool gpt2 : {false, true}) {
    CAPTURE(gpt2);
    SetupOptions options(gpt2 ? training_gpt2_shape() : training_shape(2, false));
    options.adapter.kind = "lora", options.adapter.rank = 3, options.adapter.dropout = 0.2;
    const RankRun one = train_one_rank(steps, DType::f32, options);
    SetupOptions without = options;
    without.adapter.dropout = 0;
    CHECK(worst_relative(one.losses, train_one_rank(steps, DType::f32, without).losses) > 1e-5);
    SetupOptions again = options;
    again.recompute.block = true;
    const RankRun recomputed = train_one_rank(steps, DType::f32, again);
    CHECK(recomputed.losses == one.losses);
    CHECK(recomputed.weights == one.weights);
    std::vector<AdapterLayout> layouts = {{"lora", layout_of(2, 1, false, 1, 1, 0), "zb-h1"},
                                          {"lora", layout_of(1, 1, false, 2, 2, 0)},
                                          {"lora", layout_of(2, 1, false, 1, 2, 3)}};
    if (!gpt2)
      layouts.insert(layouts.end(), {{"lora", layout_of(1, 2, false, 1, 1, 0)},
                                     {"lora", layout_of(1, 2, true, 1, 2, 1)},
                                     {"lora", layout_of(2, 2, true, 1, 1, 2)}});
    for (const AdapterLayout& layout : layouts) {
      CAPTURE(layout.dims.to_string());
      options.pipeline.schedule = layout.schedule;
      for (const RankRun& run : train_on_threads(layout.dims, steps, DType::f32, {}, options)) {
        REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
        CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
        CHECK(std::abs(run.heldout_loss / one.heldout_loss - 1) <= 1e-5);
      }
    }
  }
}

namespace {

// Experts, a shared one, and a matrix of attention are adapted.
SetupOptions experts_setup(const char* kind) {
  SetupOptions options(training_mixtral_shape());
  options.shape.n_shared_experts = 1;
  options.adam_eps = 1e-6;  // tests/parallel/expert_curves.h
  options.adapter.kind = kind, options.adapter.rank = 3;
  options.adapter.targets = {"w1", "w2", "w3", "*.shared_experts.*", "q_proj"};
  options.adapter.modules_to_save = {"post_attention_layernorm", "norm"};
  return options;
}

AdapterLayout experts_layout(const char* kind, ParallelDims dims, int ep, int etp,
                             const std::string& schedule = "auto") {
  dims.ep = ep, dims.etp = etp;
  return {kind, dims, schedule};
}

std::vector<AdapterLayout> experts_layouts() {
  return {experts_layout("lora", layout_of(1, 1, false, 1, 2, 0), 2, 1),
          experts_layout("lora", layout_of(1, 2, true, 1, 1, 0), 1, 1),
          experts_layout("lora", layout_of(1, 2, true, 1, 1, 0), 2, 1),
          experts_layout("lora", layout_of(1, 2, true, 1, 1, 0), 1, 2),
          experts_layout("lora", layout_of(1, 1, false, 1, 2, 0), 1, 2),
          experts_layout("lora", layout_of(1, 2, false, 1, 2, 1), 2, 2),
          experts_layout("lora", layout_of(2, 1, false, 1, 2, 0), 2, 1),
          experts_layout("lora", layout_of(2, 1, false, 1, 2, 1), 2, 1, "zb-h1"),
          experts_layout("lora", layout_of(1, 1, false, 1, 4, 1), 2, 1),
          experts_layout("lora", layout_of(1, 1, false, 1, 4, 2), 2, 1),
          experts_layout("lora", layout_of(1, 2, true, 1, 2, 2), 1, 2),
          experts_layout("lora", layout_of(1, 1, false, 1, 2, 3), 2, 1),
          experts_layout("lora", layout_of(1, 1, false, 2, 1, 0), 2, 1),
          experts_layout("dora", layout_of(1, 2, true, 1, 2, 1), 2, 2),
          experts_layout("dora", layout_of(1, 1, false, 1, 4, 3), 2, 2),
          experts_layout("ia3", layout_of(1, 2, true, 1, 2, 0), 2, 2),
          experts_layout("ia3", layout_of(2, 1, false, 1, 2, 2), 2, 1)};
}

}  // namespace

TEST_CASE("an adapter of experts' matrices follows the curve of one rank in every layout") {
  constexpr int steps = 3;
  std::map<std::string, RankRun> of_one_rank;
  double worst = 0;
  for (const AdapterLayout& layout : experts_layouts()) {
    CAPTURE(layout.kind);
    CAPTURE(layout.dims.to_string());
    SetupOptions options = experts_setup(layout.kind);
    if (!of_one_rank.contains(layout.kind)) of_one_rank[layout.kind] = train_one_rank(steps, DType::f32, options);
    const RankRun& one = of_one_rank[layout.kind];
    REQUIRE(one.losses.size() == steps);
    options.pipeline.schedule = layout.schedule;
    for (const RankRun& run : train_on_threads(layout.dims, steps, DType::f32, {}, options)) {
      REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
      worst = std::max(worst, worst_relative(one.losses, run.losses));
      CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
      CHECK(std::abs(run.heldout_loss / one.heldout_loss - 1) <= 1e-5);
      // Replicas that only bring their experts together add in the same order.
      if (layout.dims.tp * layout.dims.cp * layout.dims.etp * layout.dims.pp == 1 && layout.dims.zero == 0) {
        CHECK(run.losses == one.losses);
        CHECK(run.weights == one.weights);
      }
    }
  }
  MESSAGE("worst relative difference of a loss ", worst);
}

TEST_CASE("an adapter of a model with experts, whose experts are on other ranks") {
  SetupOptions options(training_mixtral_shape());
  options.adapter.kind = "lora", options.adapter.rank = 3;
  const RankRun one = train_one_rank(3, DType::f32, options);
  ParallelDims dims;
  dims.dp_replicate = 2, dims.ep = 2;
  for (const RankRun& run : train_on_threads(dims, 3, DType::f32, {}, options)) {
    REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
    CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
  }
}

TEST_CASE("an adapter of a GPT-2, whose q, k and v are one matrix, follows the curve of one rank") {
  for (const char* kind : {"lora", "dora", "ia3", "prompt", "prefix", "bottleneck"})
    for (const ParallelDims& dims : {layout_of(2, 1, false, 1, 2, 2), layout_of(1, 1, false, 2, 1, 0)}) {
      CAPTURE(kind);
      CAPTURE(dims.to_string());
      SetupOptions options(training_gpt2_shape());
      options.adapter.kind = kind, options.adapter.virtual_tokens = 5;
      if (options.adapter.changes_weights()) options.adapter.modules_to_save = {"wpe", "ln_1", "ln_f"};
      const RankRun one = train_one_rank(3, DType::f32, options);
      for (const RankRun& run : train_on_threads(dims, 3, DType::f32, {}, options)) {
        REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
        CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
      }
    }
}

TEST_CASE("an adapter of weights in few bits follows the curve of one rank") {
  ModelShape shape = training_shape(2, false);
  shape.hidden_size = shape.intermediate_size = 128, shape.head_dim = 32;
  for (const char* format : {"nf4", "int8"}) {
    CAPTURE(format);
    SetupOptions options(shape);
    options.adapter.kind = "lora", options.adapter.rank = 3, options.adapter.base_weights = format;
    const RankRun one = train_one_rank(3, DType::f32, options);
    for (const ParallelDims& dims : {layout_of(1, 2, true, 1, 1, 0), layout_of(2, 1, false, 1, 2, 3)}) {
      CAPTURE(dims.to_string());
      for (const RankRun& run : train_on_threads(dims, 3, DType::f32, {}, options)) {
        REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      }
    }
  }
}

TEST_CASE("an adapter of experts whose weights are in few bits follows the curve of one rank") {
  SetupOptions options = experts_setup("lora");
  options.adapter.base_weights = "nf4";
  const RankRun one = train_one_rank(3, DType::f32, options);
  ParallelDims dims = layout_of(1, 1, false, 1, 4, 3);
  dims.ep = 2;
  for (const RankRun& run : train_on_threads(dims, 3, DType::f32, {}, options)) {
    REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
    CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
  }
}

TEST_CASE("a bottleneck behind dropout, over sequences that are split, computed again: bit for bit as it was kept") {
  for (const ModelShape& shape : {training_shape(2, false), training_gpt2_shape()}) {
    CAPTURE(shape.architecture);
    SetupOptions options(shape);
    options.adapter.kind = "bottleneck", options.adapter.bottleneck_size = 6, options.dropout = 0.2;
    const RankRun one = train_one_rank(3, DType::f32, options);
    RecomputeSettings recompute;
    recompute.modules = {"block"};
    std::vector<RankRun> kept, again;
    for (std::vector<RankRun>* runs : {&kept, &again}) {
      *runs = train_on_threads(layout_of(1, 2, true, 1, 1, 0), 3, DType::f32, {}, options);
      options.recompute = recompute_from(recompute).value();
    }
    for (std::size_t rank = 0; rank < kept.size(); ++rank) {
      REQUIRE_MESSAGE(again[rank].status.ok(), again[rank].status.error().message());
      CHECK(again[rank].losses == kept[rank].losses);
      CHECK(again[rank].norms == kept[rank].norms);
      CHECK(worst_relative(one.losses, kept[rank].losses) <= 1e-5);
      CHECK(worst_relative(one.norms, kept[rank].norms) <= 1e-4);
    }
  }
}

namespace {

std::vector<SetupOptions> planned_setups() {
  std::vector<SetupOptions> all(4);
  all[0].adapter.kind = "lora", all[0].adapter.ranks = {{"q_proj", 3}};
  all[1].adapter.kind = "ia3";
  all[2].adapter.kind = "lora", all[2].adapter.base_weights = "nf4";
  all[3].adapter.kind = "lora", all[3].adapter.base_weights = "int8";
  all.push_back(experts_setup("lora"));
  all.emplace_back(training_shape(2, false));
  all.back().adapter.kind = "lora", all.back().adapter.modules_to_save = {"embed_tokens", "lm_head", "norm"};
  all.emplace_back(training_shape(2, false));
  all.back().adapter.kind = "lora", all.back().adapter.targets = {"embed_tokens"};
  all.push_back(experts_setup("dora"));
  all.back().adapter.targets = {"w2"};
  all.push_back(experts_setup("lora"));
  all.back().adapter.targets = {"*.experts.3.w1"}, all.back().adapter.base_weights = "nf4";
  all.emplace_back();
  all.back().adapter.kind = "lora", all.back().adapter.ranks = {{"down_proj", 12}}, all.back().adapter.dropout = 0.1;
  for (const char* kind : {"prompt", "p-tuning"}) {
    all.emplace_back();
    all.back().adapter.kind = kind, all.back().adapter.virtual_tokens = 5;
  }
  for (const bool again : {false, true}) {
    all.emplace_back();
    all.back().adapter.kind = "bottleneck", all.back().adapter.bottleneck_size = 6;
    RecomputeSettings recompute;
    if (again) recompute.modules = {"block"}, recompute.layers = 1;
    all.back().recompute = recompute_from(recompute).value();
  }
  return all;
}

}  // namespace

TEST_CASE("memory of an adapter's training is what was planned") {
  for (const SetupOptions& options : planned_setups()) {
    CAPTURE(options.adapter.kind);
    CAPTURE(options.adapter.base_weights);
    CAPTURE(join(options.adapter.targets, ", "));
    TrainingSetup setup(8, 2, 2, nullptr, DType::bf16, 32, options);
    REQUIRE(setup.trainer.step().ok());
    TrainingOutline outline;
    outline.shape = options.shape, outline.adapter = options.adapter;
    outline.recompute = options.recompute;
    outline.micro_batch_size = 2, outline.sequence_length = 16, outline.micro_batches = {4};
    outline.rope_positions = options.shape.max_position_embeddings;
    const auto plan = plan_training_memory(outline, {});
    REQUIRE(plan.ok());
    const MemoryTable held = setup.memory.peak();
    for (const MemoryCategory category :
         {MemoryCategory::weights, MemoryCategory::gathered_weights, MemoryCategory::master, MemoryCategory::gradients,
          MemoryCategory::optimizer, MemoryCategory::activations}) {
      CAPTURE(to_string(category));
      CHECK(held[category] == plan->bytes[category]);
    }
  }
}

TEST_CASE("memory of codes that ranks share is what was planned") {
  const ParallelDims dims = layout_of(1, 1, false, 1, 2, 3);
  SetupOptions options(training_shape(4));
  options.adapter.kind = "lora", options.adapter.base_weights = "nf4";
  std::vector<MemoryTable> held(2);
  on_threads(dims, [&](int rank, Mesh& mesh) {
    TrainingSetup setup(8, 2, 2, &mesh, DType::bf16, 32, options);
    if (setup.trainer.step().ok()) held[static_cast<std::size_t>(rank)] = setup.memory.peak();
  });
  TrainingOutline outline;
  outline.shape = options.shape, outline.adapter = options.adapter, outline.dims = dims;
  outline.micro_batch_size = 2, outline.sequence_length = 16, outline.micro_batches = {2};
  for (int rank = 0; rank < 2; ++rank) {
    const auto plan = plan_training_memory(outline, coordinates_of(dims, rank));
    REQUIRE(plan.ok());
    for (const MemoryCategory category : {MemoryCategory::weights, MemoryCategory::gathered_weights}) {
      CAPTURE(to_string(category));
      CHECK(held[static_cast<std::size_t>(rank)][category] == plan->bytes[category]);
    }
  }
}
