// Memory on a GPU in closed form: against the lists of pipeline operations, against the engine's own plan, and what
// makes which part smaller. Published peaks: tests/bench/autotune/framework_memory_bench.cc.
#include "autotune/memory/framework_memory.h"

#include <doctest/doctest.h>

#include <random>

#include "autotune/memory/memory_profiles.h"
#include "contracts/plan/memory_plan.h"

using namespace longhaul;

namespace {

ModelShape shape_of(std::int64_t layers, std::int64_t experts = 0) {
  ModelShape s;
  s.vocab_size = 32000, s.hidden_size = 2048, s.num_hidden_layers = layers;
  s.num_attention_heads = 16, s.num_key_value_heads = 4, s.max_position_embeddings = 4096;
  s.tie_word_embeddings = false;
  if (experts > 0) s.architecture = "mixtral", s.num_local_experts = experts, s.moe_intermediate_size = 1024;
  return resolve_shape(s).value();
}

FrameworkTraining training_on(const ParallelDims& dims, int micro_batches = 8) {
  FrameworkTraining t;
  t.dims = dims, t.micro_batches = micro_batches, t.micro_batch_size = 2, t.sequence_length = 2048;
  t.schedule = dims.vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
  return t;
}

ParallelDims dims_of(int tp, int pp, int dp, int zero = 0, int vp = 1) {
  ParallelDims d;
  d.tp = tp, d.sp = tp > 1, d.pp = pp, d.vp = vp, d.dp_shard = dp, d.zero = zero;
  return d;
}

}  // namespace

TEST_CASE("chunks that are alive at once are those of the schedule's own lists") {
  int compared = 0;
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zb_h1})
    for (const int pp : {1, 2, 3, 4, 8})
      for (const int vp : {1, 2, 3})
        for (const int m : {1, 2, 4, 5, 8, 12, 24}) {
          const PipelineScheduleSettings settings{kind, pp, vp, m, 0};
          for (int rank = 0; rank < pp; ++rank) {
            const auto ops = pipeline_schedule(settings, rank);
            if (!ops.ok()) continue;  // a kind that does not go with vp
            FrameworkTraining t = training_on(dims_of(1, pp, 1, 0, vp), m);
            t.schedule = kind;
            CAPTURE(to_string(kind));
            CAPTURE(pp);
            CAPTURE(vp);
            CAPTURE(m);
            CAPTURE(rank);
            CHECK(chunks_alive(t, rank) == schedule_slots(*ops).value());
            ++compared;
          }
        }
  CHECK(compared > 200);
}

TEST_CASE("layers of a rank are those that the pipeline distributes") {
  for (const int layers : {8, 30, 32, 126})
    for (const int pp : {1, 2, 4, 8})
      for (const int vp : {1, 2, 3})
        for (const int ends : {0, 1}) {
          if (pp * vp > layers || (pp == 1 && vp > 1)) continue;
          FrameworkTraining t = training_on(dims_of(1, pp, 1, 0, vp));
          if (pp > 1) t.embedding_as_layers = t.loss_as_layers = ends;
          FrameworkModel model;
          model.layers = layers;
          StageLayoutSettings settings;
          settings.embedding_as_layers = t.embedding_as_layers, settings.loss_as_layers = t.loss_as_layers;
          const StageLayout stages = resolve_stages(layers, pp, vp, settings).value();
          int sum = 0;
          for (int rank = 0; rank < pp; ++rank) {
            int assigned = 0;
            for (int chunk = 0; chunk < vp; ++chunk) assigned += layers_of_chunk(stages, rank, chunk).count();
            CAPTURE(layers);
            CAPTURE(pp);
            CAPTURE(vp);
            CAPTURE(ends);
            CAPTURE(rank);
            CHECK(layers_of_rank(model, t, rank) == assigned);
            sum += assigned;
          }
          CHECK(sum == layers);
        }
}

TEST_CASE("the engine's own plan and the closed form agree on what a GPU would hold") {
  const std::vector<ParallelDims> layouts = {dims_of(1, 1, 1),       dims_of(2, 1, 1),       dims_of(1, 2, 1),
                                             dims_of(2, 4, 1),       dims_of(1, 2, 1, 0, 2), dims_of(1, 1, 4, 1),
                                             dims_of(2, 1, 4, 2),    dims_of(1, 1, 8, 3),    dims_of(2, 2, 2, 1),
                                             dims_of(1, 4, 2, 1, 2), dims_of(4, 1, 2, 3)};
  for (const ParallelDims& dims : layouts)
    for (const bool again : {false, true})
      for (const std::int64_t experts : {0, 8}) {
        TrainingOutline o;
        o.shape = shape_of(16, experts), o.dims = dims, o.micro_batch_size = 2, o.sequence_length = 2048;
        o.micro_batches = {8};
        FrameworkTraining t = training_on(dims);
        if (again) o.recompute = t.recompute = *recompute_from({{"block"}, 0});
        CAPTURE(dims.to_string());
        CAPTURE(again);
        CAPTURE(experts);
        const FrameworkModel model = framework_model(o.shape);
        for (int rank = 0; rank < dims.pp; ++rank) {
          RankCoordinates at;
          at.pp = rank;
          const MemoryTable plan = plan_training_memory(o, at).value().bytes;
          const FrameworkMemory here = stage_memory(longhaul_memory(), model, t, rank);
          using Category = MemoryCategory;
          const auto sum = [&](std::initializer_list<Category> categories) {
            double bytes = 0;
            for (const Category category : categories) bytes += static_cast<double>(plan[category]);
            return bytes;
          };
          CHECK(here.weights == doctest::Approx(sum({Category::weights, Category::gathered_weights})).epsilon(0.02));
          CHECK(here.gradients == doctest::Approx(sum({Category::gradients})).epsilon(0.02));
          CHECK(here.optimizer == doctest::Approx(sum({Category::master, Category::optimizer})).epsilon(0.02));
          const double moving = sum({Category::activations, Category::experts, Category::logits});
          CHECK(here.activations + here.transient + here.logits == doctest::Approx(moving).epsilon(0.06));
        }
      }
}

TEST_CASE("states of Megatron's distributed optimizer: 6 bytes of a parameter and 12 divided by its ranks") {
  const ModelShape shape = shape_of(16);
  const FrameworkModel model = framework_model(shape);
  const double parameters = static_cast<double>(shape.parameter_count());
  for (const int dp : {1, 2, 8}) {
    const FrameworkMemory m = stage_memory(megatron_memory(), model, training_on(dims_of(1, 1, dp, 1)), 0);
    CHECK(m.weights + m.gradients + m.optimizer == doctest::Approx(parameters * (6 + 12.0 / dp)).epsilon(0.001));
  }
}

TEST_CASE("activations of a layer as Korthikanti et al. have them, without the scores that flash attention spares") {
  // GPT: 34 s b h, of which 8 are queries, keys, values and output, 24 / t with sequence parallelism off.
  FrameworkModel gpt;
  gpt.layers = 1, gpt.hidden = gpt.q = gpt.kv = 1024, gpt.heads = 16, gpt.ffn = gpt.mlp = 4096, gpt.vocab = 1;
  const double sbh = 2.0 * 2048 * 1024, log_sums = 2.0 * 2048 * 16 * 4;
  for (const int tp : {1, 4}) {
    FrameworkTraining t = training_on(dims_of(tp, 1, 1), 1);
    t.dropout = true, t.dims.sp = false;
    const FrameworkMemory whole = stage_memory(megatron_memory(), gpt, t, 0);
    CHECK(whole.activations == doctest::Approx(sbh * (10 + 24.0 / tp) + log_sums / tp));
    t.dims.sp = tp > 1;
    CHECK(stage_memory(megatron_memory(), gpt, t, 0).activations ==
          doctest::Approx(sbh * 34 / tp + log_sums / tp));  // equation 4
    t.recompute = *recompute_from({{"block"}, 0});
    CHECK(stage_memory(megatron_memory(), gpt, t, 0).activations == doctest::Approx(2 * sbh / tp));
  }
}

TEST_CASE("of every second product a layer keeps its input, what was attended, queries, values, gate and down") {
  FrameworkModel model;
  model.layers = 3, model.hidden = 1024, model.q = 768, model.kv = 256, model.heads = 12, model.vocab = 1;
  model.ffn = 3000, model.mlp = 6000;
  MemoryProfile profile = megatron_memory();
  profile.every_second_product = true;  // torchtitan's selective recomputation
  const double tokens = 2.0 * 2048, bf16 = 2, f32 = 4;
  for (const int tp : {1, 4}) {
    FrameworkTraining t = training_on(dims_of(tp, 1, 1), 1);
    const double split = bf16 * (768 + 768 + 256 + 3000) + f32 * 12;  // with the logarithms of attention's sums
    const FrameworkMemory kept = stage_memory(profile, model, t, 0);
    CHECK(kept.activations == doctest::Approx(3 * tokens * (bf16 * 2 * 1024 + split) / tp));
    const FrameworkMemory all = stage_memory(megatron_memory(), model, t, 0);
    CHECK(kept.activations < all.activations);
    CHECK(kept.transient > all.transient);  // one layer's, which is computed again
  }
}

TEST_CASE("the worst stage is the worst of all stages") {
  std::mt19937 draw(20261123);
  MESSAGE("seed 20261123");
  for (int i = 0; i < 2000; ++i) {
    const auto one_of = [&](std::initializer_list<int> values) {
      return *(values.begin() + static_cast<std::ptrdiff_t>(draw() % values.size()));
    };
    const int pp = one_of({1, 2, 4, 8}), vp = pp > 1 ? one_of({1, 2, 4}) : 1;
    FrameworkTraining t =
        training_on(dims_of(one_of({1, 2, 4}), pp, one_of({1, 2, 8}), one_of({0, 1}), vp), one_of({1, 4, 8, 32}));
    t.sequence_length = one_of({512, 4096}), t.micro_batch_size = one_of({1, 4});
    if (one_of({0, 1}) == 1) t.recompute = *recompute_from({{"block"}, 0});
    const FrameworkModel model = framework_model(shape_of(one_of({32, 40, 61})));
    const MemoryProfile profile = one_of({0, 1}) == 0 ? megatron_memory() : longhaul_memory();
    double most = 0;
    for (int rank = 0; rank < pp; ++rank) most = std::max(most, stage_memory(profile, model, t, rank).total());
    CAPTURE(i);
    CAPTURE(t.dims.to_string());
    CAPTURE(t.micro_batches);
    CHECK(worst_stage_memory(profile, model, t).memory.total() == doctest::Approx(most).epsilon(1e-9));
  }
}

TEST_CASE("offload moves the optimizer's state to the host and nothing else") {
  const FrameworkModel model = framework_model(shape_of(16));
  FrameworkTraining t = training_on(dims_of(1, 1, 2, 1));
  const FrameworkMemory here = stage_memory(megatron_memory(), model, t, 0);
  t.host_optimizer = 0.25;
  const FrameworkMemory moved = stage_memory(megatron_memory(), model, t, 0);
  CHECK(moved.host == doctest::Approx(here.optimizer / 4));
  CHECK(moved.total() == doctest::Approx(here.total() - moved.host));
}

TEST_CASE("attention over a cp group takes the buffers of its kind") {
  const FrameworkModel model = framework_model(shape_of(16));
  FrameworkTraining t = training_on(dims_of(1, 2, 2, 1));  // the first stage: no logits beside
  t.dims.cp = 4;
  const auto more_than_ring = [&](ContextKind kind) {
    t.context = ContextKind::ring;
    const double ring = stage_memory(megatron_memory(), model, t, 0).transient;
    t.context = kind;
    return stage_memory(megatron_memory(), model, t, 0).transient - ring;
  };
  // 2 x 2048 tokens on four ranks; 2048 columns of queries, 512 of keys and of values.
  const double tokens = 1024, q = 2048, kv = 512;
  const double ring = tokens * (8 * kv + 5 * q + 2 * kv + 24 * kv);
  const double gather = tokens * 2 * kv * (2 + 4 + (6 + 4) * 4);
  const double a2a = tokens * 2 * (2 * 2 * q + 2 * q + q + 2 * kv);
  CHECK(more_than_ring(ContextKind::gather) == doctest::Approx(gather - ring));
  CHECK(more_than_ring(ContextKind::a2a) == doctest::Approx(a2a - ring));
}

TEST_CASE("a profile is found by its name, and an unknown one names all") {
  for (const std::string& name : memory_profile_names()) CHECK(memory_profile(name).ok());
  const auto none = memory_profile("jax");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message().find("megatron") != std::string::npos);
}
