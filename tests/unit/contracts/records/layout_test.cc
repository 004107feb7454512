#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/parameter_list.h"
#include "contracts/pipeline/schedule.h"
#include "contracts/records/checkpoint_format.h"

using namespace longhaul;

namespace {
ModelShape tiny_shape() {
  ModelShape s;
  s.vocab_size = 96;
  s.hidden_size = 32;
  s.num_hidden_layers = 4;
  s.num_attention_heads = 4;
  s.num_key_value_heads = 2;
  return resolve_shape(s).value();
}
ModelShape tiny_mixtral() {
  ModelShape s = tiny_shape();
  s.architecture = "mixtral", s.num_local_experts = 8, s.moe_intermediate_size = 24;
  s.n_shared_experts = 1, s.router_bias = true;
  return resolve_shape(s).value();
}
ModelShape tiny_gpt2() {
  ModelShape s = tiny_shape();
  s.architecture = "gpt2", s.num_key_value_heads = 0, s.intermediate_size = 0, s.max_position_embeddings = 40;
  return resolve_shape(s).value();
}
ParallelDims random_dims(PhiloxSequence& random) {
  ParallelDims d;
  d.tp = 1 << random.next_below(3);
  d.cp = 1 << random.next_below(2);
  d.pp = 1 << random.next_below(3);
  d.dp_shard = 1 + static_cast<int>(random.next_below(3));
  d.dp_replicate = 1 + static_cast<int>(random.next_below(2));
  return d;
}
}  // namespace

TEST_CASE("coordinates name each rank once and lead back to it") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const ParallelDims dims = random_dims(random);
    for (int rank = 0; rank < dims.world_size(); ++rank)
      CHECK(global_rank_of(dims, coordinates_of(dims, rank)) == rank);
  }
}

TEST_CASE("an impossible layout names the product with every factor") {
  ParallelDims d;
  d.tp = 4, d.pp = 4, d.dp_replicate = 3;
  const auto r = resolve_dims(d, 64);
  REQUIRE(!r.ok());
  CHECK(r.error().what == "tp(4) * cp(1) * pp(4) * dp(3) = 48, but the job has 64 ranks");
  CHECK(r.error().hint == "use dp_replicate = 4");
  d.dp_replicate = 0;
  CHECK(resolve_dims(d, 64)->dp_replicate == 4);
}

TEST_CASE("the shards of every layout tile every parameter") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    const ModelShape shape = seed % 3 == 0 ? tiny_gpt2() : tiny_shape();
    PhiloxSequence random(seed);
    const ParallelDims dims = random_dims(random);
    CAPTURE(dims.to_string());
    for (const ParameterSpec& p : parameter_list(shape)) {
      CAPTURE(p.name);
      std::int64_t held = 0;
      std::set<std::vector<std::int64_t>> seen;
      for (int rank = 0; rank < dims.world_size(); ++rank) {
        const Box box = shard_of(p, shape, dims, coordinates_of(dims, rank));
        if (box.elements() > 0 && seen.insert(box.offset).second) held += box.elements();
      }
      CHECK(held == p.elements());
    }
  }
}

TEST_CASE("the shards of every layout tile the experts, and those that hold the same can be counted") {
  const ModelShape shape = tiny_mixtral();
  int layouts = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    ParallelDims dims = random_dims(random);
    dims.ep = 1 << random.next_below(4), dims.etp = 1 << random.next_below(3);
    const auto experts = expert_dims_of(dims);
    if (!experts.ok()) continue;
    ++layouts;
    CAPTURE(dims.to_string());
    CHECK(experts->ranks * experts->copies * experts->dp_shard * experts->dp_replicate * dims.pp == dims.world_size());
    for (const ParameterSpec& p : parameter_list(shape)) {
      if (p.expert < 0) continue;
      CAPTURE(p.name);
      std::map<std::vector<std::int64_t>, int> holders;
      std::int64_t held = 0;
      for (int rank = 0; rank < dims.world_size(); ++rank) {
        const Box box = shard_of(p, shape, dims, coordinates_of(dims, rank));
        if (box.elements() > 0 && ++holders[box.offset] == 1) held += box.elements();
      }
      CHECK(held == p.elements());
      for (const auto& [offset, count] : holders)
        CHECK(count == experts->copies * experts->dp_shard * experts->dp_replicate);
    }
  }
  CHECK(layouts > 50);
}

TEST_CASE("ranks are assigned to experts within a micro-batch first, then over replicas") {
  ParallelDims d;
  d.tp = 2, d.dp_shard = 4, d.dp_replicate = 2, d.ep = 4;
  const ExpertDims over = expert_dims_of(d).value();
  CHECK(over.batches == 2);
  CHECK(over.copies == 1);
  CHECK(over.dp_shard == 2);
  CHECK(over.dp_replicate == 2);
  CHECK(expert_coordinates_of(d, coordinates_of(d, 3)) == ExpertCoordinates{0, 3, 0, 0, 0});
  CHECK(expert_coordinates_of(d, coordinates_of(d, 13)) == ExpertCoordinates{0, 1, 0, 1, 1});
  d.ep = 1;
  CHECK(expert_dims_of(d)->copies == 2);
  CHECK(expert_coordinates_of(d, coordinates_of(d, 3)).copy == 1);
  d.ep = 2, d.etp = 2;
  CHECK(expert_coordinates_of(d, coordinates_of(d, 3)) == ExpertCoordinates{1, 1, 0, 0, 0});
}

TEST_CASE("embedding and output layer may start wider than the layers between") {
  ModelShape shape;
  shape.vocab_size = 64, shape.hidden_size = 32, shape.intermediate_size = 64, shape.num_hidden_layers = 1;
  shape.num_attention_heads = shape.num_key_value_heads = 2, shape.head_dim = 16;
  shape.tie_word_embeddings = false, shape.initializer_range = 0.02;
  for (const double range : {0.0, 0.07}) {
    shape.embedding_initializer_range = range;
    for (const ParameterSpec& p : parameter_list(shape)) {
      if (p.name == "model.embed_tokens.weight" || p.name == "lm_head.weight")
        CHECK(p.init_std == (range > 0 ? range : 0.02));
      if (p.name == "model.layers.0.self_attn.q_proj.weight") CHECK(p.init_std == 0.02);
    }
  }
}

TEST_CASE("the parameter list adds up to the shape's count, tied or not") {
  for (const bool tied : {true, false}) {
    for (ModelShape shape : {tiny_shape(), tiny_gpt2()}) {
      shape.tie_word_embeddings = tied;
      std::int64_t sum = 0, matrices = 0;
      for (const ParameterSpec& p : parameter_list(shape)) {
        sum += p.elements();
        if (p.shape.size() == 2 && p.layer >= 0) matrices += p.elements();
      }
      CHECK(sum == shape.parameter_count());
      CHECK(matrices + shape.vocab_size * shape.hidden_size == shape.matmul_parameter_count());
    }
  }
}

TEST_CASE("GPT-2 124M has the parameters that its authors count") {
  ModelShape shape;
  shape.architecture = "gpt2", shape.vocab_size = 50257, shape.hidden_size = 768, shape.num_hidden_layers = 12;
  shape.num_attention_heads = 12, shape.max_position_embeddings = 1024;
  const auto resolved = resolve_shape(shape);
  REQUIRE(resolved.ok());
  CHECK(resolved->intermediate_size == 3072);
  CHECK(resolved->parameter_count() == 124'439'808);
  shape.num_key_value_heads = 4;
  CHECK_FALSE(resolve_shape(shape).ok());
  shape.num_key_value_heads = 0, shape.head_dim = 32;
  CHECK(resolve_shape(shape).error().what.find("hidden_size") != std::string::npos);
}

TEST_CASE("a sliding window: how many keys a token sees on average, what that costs, and which models have none") {
  ModelShape shape = tiny_shape();
  const double whole = shape.train_flops_per_token(64);
  shape.sliding_window = 8;
  double keys = 0;  // of each token of a sequence half of itself, as the causal half counts it, and all before it
  for (int token = 0; token < 64; ++token) keys += token < 8 ? token + 0.5 : 8;
  CHECK(shape.keys_per_token(64) == keys / 64);
  const double per_key = 12.0 * static_cast<double>(shape.num_hidden_layers * shape.q_size());
  CHECK(shape.train_flops_per_token(64) == whole - per_key * (32 - keys / 64));
  shape.sliding_window = 64;
  CHECK(shape.train_flops_per_token(64) == whole);
  ModelShape gpt2 = tiny_gpt2();
  gpt2.sliding_window = 8;
  CHECK(resolve_shape(gpt2).error().message().find("gpt2 attends to all tokens") != std::string::npos);
  shape.sliding_window = -1;
  CHECK_FALSE(resolve_shape(shape).ok());
}

TEST_CASE("learned positions stand on the first stage only, a tied embedding on both ends") {
  const ModelShape shape = tiny_gpt2();
  const StageLayout stages = even_stages(static_cast<int>(shape.num_hidden_layers), 2, 1);
  for (const ParameterSpec& p : parameter_list(shape)) {
    if (p.name == "transformer.wpe.weight") CHECK(stages_of(p, shape, stages) == std::vector<int>{0});
    if (p.name == "transformer.wte.weight") CHECK(stages_of(p, shape, stages) == std::vector<int>{0, 1});
    if (p.name == "transformer.ln_f.bias") CHECK(stages_of(p, shape, stages) == std::vector<int>{1});
  }
}

TEST_CASE("a mixture of experts adds up, and a token meets only the experts that it goes to") {
  const ModelShape shape = tiny_mixtral();
  std::int64_t sum = 0, of_one_expert = 0;
  for (const ParameterSpec& p : parameter_list(shape)) {
    sum += p.elements();
    of_one_expert += p.expert == 3 ? p.elements() : 0;
  }
  CHECK(sum == shape.parameter_count());
  CHECK(of_one_expert == 4 * 3 * 32 * 24);
  CHECK(shape.active_parameter_count() == sum - 6 * of_one_expert);
  ModelShape more = shape;
  more.num_local_experts = 16;  // twice the experts cost nothing but the router
  CHECK(more.train_flops_per_token(64) == shape.train_flops_per_token(64) + 6.0 * 4 * 8 * 32);
}

TEST_CASE("experts that no router can choose from are refused") {
  ModelShape s = tiny_shape();
  s.num_local_experts = 4;
  CHECK(resolve_shape(s).error().message().find("architecture") != std::string::npos);
  s.architecture = "mixtral", s.num_experts_per_tok = 5;
  CHECK(resolve_shape(s).error().message().find("num_experts_per_tok = 5 of num_local_experts = 4") !=
        std::string::npos);
  s.num_experts_per_tok = 2, s.n_group = 3;
  CHECK(resolve_shape(s).error().message().find("n_group = 3") != std::string::npos);
  s.n_group = 4, s.topk_group = 1;
  CHECK(resolve_shape(s).error().message().find("topk_group = 1") != std::string::npos);
  s.topk_group = 2;
  CHECK(resolve_shape(s).ok());
}

TEST_CASE("1F1B is complete, in order, and holds at most pp - rank micro-batches") {
  for (int pp = 1; pp <= 5; ++pp)
    for (int rank = 0; rank < pp; ++rank)
      for (int m : {1, 2, 4, 7}) {
        CAPTURE(pp);
        CAPTURE(rank);
        CAPTURE(m);
        const auto ops = schedule_1f1b(pp, rank, m);
        CHECK(ops.size() == 2 * static_cast<std::size_t>(m));
        CHECK(schedule_slots(ops).value() == std::min(m, pp - rank));
      }
  CHECK(!schedule_slots({{ScheduleOp::Kind::backward, 0, 0}}).ok());
  CHECK(!schedule_slots({{ScheduleOp::Kind::forward, 0, 0}}).ok());
}

TEST_CASE("a shape that does not divide is refused with the pair that does not fit") {
  ModelShape s;
  s.hidden_size = 100, s.num_attention_heads = 3;
  const auto r = resolve_shape(s);
  REQUIRE(!r.ok());
  CHECK(r.error().what == "num_attention_heads = 3 does not divide hidden_size = 100");
  CHECK(r.error().hint.find("102") != std::string::npos);
}

TEST_CASE("a checkpoint that leaves out or doubles elements is not covered") {
  CheckpointManifest m;
  m.shape = tiny_shape();
  m.tensors = {{"a", {4, 6}}};
  CheckpointEntry upper{"a", {{0, 0}, {2, 6}}, 0, 12, "f", "a", "F32", 1};
  CheckpointEntry lower_1{"a", {{2, 0}, {2, 6}}, 0, 5, "f", "b", "F32", 2},
      lower_2{"a", {{2, 0}, {2, 6}}, 5, 12, "f", "c", "F32", 3};
  m.entries = {upper, lower_1, lower_2};
  CHECK(check_coverage(m).ok());
  const auto read_back = checkpoint_from_value(checkpoint_to_value(m));
  REQUIRE(read_back.ok());
  CHECK(check_coverage(*read_back).ok());
  CHECK(read_back->entries[2].xxh3 == 3);
  CheckpointManifest absurd = m;  // products that no 64 bits hold
  absurd.tensors = {{"a", {1LL << 40, 1LL << 40}}};
  CHECK(checkpoint_from_value(checkpoint_to_value(absurd)).error().code == ErrorCode::corrupt);
  absurd = m;
  absurd.entries[0].box.extent = {1LL << 62, 6};
  CHECK(checkpoint_from_value(checkpoint_to_value(absurd)).error().code == ErrorCode::corrupt);
  CheckpointManifest moved = m;  // as many elements, some of them twice and others not at all
  for (CheckpointEntry* half : {&moved.entries[1], &moved.entries[2]}) half->box.offset = {1, 0};
  REQUIRE(!check_coverage(moved).ok());
  CHECK(check_coverage(moved).error().what.find("a (24 of 24 elements, overlapping)") != std::string::npos);
  for (CheckpointEntry* half : {&moved.entries[1], &moved.entries[2]}) half->box.offset = {3, 0};
  CHECK(check_coverage(moved).error().what.find("outside of it") != std::string::npos);
  m.entries.pop_back();
  CHECK(!check_coverage(m).ok());
  lower_2.flat_begin = 4;
  m.entries.push_back(lower_2);
  CHECK(!check_coverage(m).ok());
}
