#include "contracts/model/adapter_list.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "contracts/model/coded_weights.h"
#include "contracts/plan/memory_plan.h"

using namespace longhaul;

namespace {

ModelShape llama_7b() {
  ModelShape shape;
  shape.vocab_size = 32000, shape.hidden_size = 4096, shape.intermediate_size = 11008, shape.num_hidden_layers = 32;
  shape.num_attention_heads = 32, shape.num_key_value_heads = 32, shape.max_position_embeddings = 4096;
  shape.tie_word_embeddings = false;
  return resolve_shape(shape).value();
}

ModelShape mixtral_8x7b() {
  ModelShape shape = llama_7b();
  shape.architecture = "mixtral", shape.num_local_experts = 8, shape.num_experts_per_tok = 2;
  shape.intermediate_size = shape.moe_intermediate_size = 14336, shape.num_key_value_heads = 8;
  return resolve_shape(shape).value();
}

ModelShape with_adapter(ModelShape shape, const std::string& kind, std::vector<std::string> targets = {}) {
  shape.adapter.kind = kind, shape.adapter.targets = std::move(targets);
  return shape;
}

}  // namespace

TEST_CASE("an adapter has parameters for each matrix, split as the matrix is") {
  const ModelShape shape = with_adapter(llama_7b(), "lora");
  const auto matrices = adapted_matrices(shape);
  REQUIRE(matrices.ok());
  CHECK(matrices->size() == 7 * 32);
  std::int64_t elements = 0;
  for (const ParameterSpec& spec : parameter_list(shape)) elements += spec.elements();
  CHECK(elements == 32 * 8 * (4 * (4096 + 4096) + 3 * (4096 + 11008)));  // rank 8
  const AdaptedMatrix& q = matrices->front();
  CHECK(q.a == "model.layers.0.self_attn.q_proj.lora_A.weight");
  CHECK(q.own[0].tp_dim == -1);  // of a matrix whose rows are split, every rank has all of A
  CHECK(q.own[1].tp_dim == 0);
  const AdaptedMatrix& o = (*matrices)[3];
  CHECK(o.own[0].tp_dim == 1);  // of one whose columns are, every rank has all of B
  CHECK(o.own[1].tp_dim == -1);
}

TEST_CASE("ia3 scales what comes out of keys and values, and what goes into the last matrix") {
  const auto matrices = adapted_matrices(with_adapter(llama_7b(), "ia3"));
  REQUIRE(matrices.ok());
  CHECK(matrices->size() == 3 * 32);
  CHECK_FALSE(matrices->front().of_columns);
  CHECK((*matrices)[2].of_columns);
  CHECK((*matrices)[2].own.front().shape == std::vector<std::int64_t>{11008});
}

TEST_CASE("targets that mean nothing are named together, with those that there are") {
  const auto wrong = adapted_matrices(with_adapter(llama_7b(), "lora", {"q_proj", "c_attn", "lm_head"}));
  REQUIRE_FALSE(wrong.ok());
  const std::string message = wrong.error().message();
  CHECK(message.find("\"c_attn\", \"lm_head\" mean no matrix") != std::string::npos);
  CHECK(message.find("down_proj") != std::string::npos);
  CHECK(adapted_matrices(with_adapter(llama_7b(), "lora", {"*layers.3.*"}))->size() == 7);
}

TEST_CASE("matrices that ranks and alphas mean have their own, and others the adapter's") {
  ModelShape shape = with_adapter(llama_7b(), "dora");
  shape.adapter.rank = 8, shape.adapter.alpha = 16;
  shape.adapter.ranks = {{"q_proj", 4}, {"model.layers.3.mlp.*", 32}}, shape.adapter.alphas = {{"self_attn.v_proj", 2}};
  const auto of = [&](const std::string& name) {
    const auto matrices = adapted_matrices(shape);
    REQUIRE(matrices.ok());
    const auto found =
        std::ranges::find(*matrices, name + ".weight", [](const AdaptedMatrix& m) { return m.matrix.name; });
    REQUIRE(found != matrices->end());
    CHECK(found->own[0].shape[0] == found->rank);
    CHECK(found->own[1].shape[1] == found->rank);
    return *found;
  };
  CHECK(of("model.layers.0.self_attn.q_proj").rank == 4);
  CHECK(of("model.layers.0.self_attn.q_proj").factor == 4);  // 16 / 4
  CHECK(of("model.layers.3.mlp.up_proj").rank == 32);
  CHECK(of("model.layers.3.mlp.up_proj").factor == 0.5);
  CHECK(of("model.layers.31.mlp.up_proj").rank == 8);
  CHECK(of("model.layers.5.self_attn.v_proj").factor == 0.25);
  CHECK(of("model.layers.5.self_attn.k_proj").factor == 2);
  shape.adapter.rslora = true;
  CHECK(of("model.layers.0.self_attn.q_proj").factor == 8);  // 16 / sqrt(4)
}

TEST_CASE("names of settings of an adapter that mean nothing, or one matrix twice, are said in one error") {
  ModelShape shape = with_adapter(llama_7b(), "lora", {"q_proj", "c_attn"});
  shape.adapter.ranks = {{"q_proj", 4}, {"v_proj", 4}, {"*.layers.7.*", 2}}, shape.adapter.alphas = {{"lm_head", 1}};
  const auto wrong = adapted_matrices(shape);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().what ==
        "adapter.targets: \"c_attn\" means no matrix that can be adapted; "
        "adapter.ranks: \"v_proj\" means no matrix that is adapted; "
        "adapter.ranks: \"*.layers.7.*\" and \"q_proj\" both mean model.layers.7.self_attn.q_proj.weight; "
        "adapter.alphas: \"lm_head\" means no matrix that is adapted");
}

TEST_CASE("modules to save are trained themselves, in the order of the model, each whole") {
  ModelShape shape = with_adapter(llama_7b(), "ia3", {"model.layers.0.*"});
  shape.adapter.modules_to_save = {"embed_tokens", "lm_head", "norm", "model.layers.0.post_attention_layernorm"};
  std::vector<std::string> names;
  const std::vector<ParameterSpec> all = parameter_list(shape);
  for (const ParameterSpec& spec : all)
    if (!spec.name.ends_with(".ia3_l")) names.push_back(spec.name);
  CHECK(names == std::vector<std::string>{"model.embed_tokens.weight", "model.layers.0.post_attention_layernorm.weight",
                                          "model.norm.weight", "lm_head.weight"});
  CHECK(all.front().shape == std::vector<std::int64_t>{32000, 4096});
  CHECK(all.front().tp_dim == 0);
  ParallelDims dims;
  dims.tp = 2;
  const ParameterSpec& norm = all[all.size() - 2];
  CHECK_FALSE(has_addends(norm, dims));  // all ranks have the same gradient
  dims.sp = true;
  CHECK(has_addends(norm, dims));
  CHECK_FALSE(has_addends(all.front(), dims));  // each has rows of its own
}

TEST_CASE("the table of tokens is adapted where its name is a target, by lora, where it is not the output") {
  ModelShape shape = with_adapter(llama_7b(), "lora", {"q_proj", "embed_tokens"});
  shape.adapter.ranks = {{"embed_tokens", 2}};
  const auto matrices = adapted_matrices(shape);
  REQUIRE(matrices.ok());
  CHECK(matrices->size() == 33);
  const AdaptedMatrix& table = matrices->front();
  CHECK(table.is_table);
  CHECK(table.a == "model.embed_tokens.lora_embedding_A");
  CHECK(table.own[0].shape == std::vector<std::int64_t>{2, 32000});
  CHECK(table.own[0].init == ParameterSpec::Init::zeros);
  CHECK(table.own[1].shape == std::vector<std::int64_t>{4096, 2});
  CHECK(table.own[1].init_std == 1);
  ParallelDims dims;
  dims.tp = 2;
  CHECK(shard_of(table.own[0], shape, dims, coordinates_of(dims, 1)).offset == std::vector<std::int64_t>{0, 16000});
  CHECK(has_addends(table.own[1], dims));
  CHECK(adapted_matrices(with_adapter(llama_7b(), "lora", {"model.*"}))->size() == 7 * 32);  // it has to be named

  const auto refused = [](ModelShape model) {
    const auto wrong = adapted_matrices(model);
    REQUIRE_FALSE(wrong.ok());
    return wrong.error().what;
  };
  CHECK(refused(with_adapter(llama_7b(), "dora", {"embed_tokens"})) ==
        "adapter.targets: \"embed_tokens\" means the table of tokens, which adapter.kind = \"lora\" alone adapts");
  ModelShape tied = with_adapter(llama_7b(), "lora", {"embed_tokens"});
  tied.tie_word_embeddings = true;
  CHECK(refused(tied).find(
            "adapter.targets: \"embed_tokens\" means a table that looks tokens up and makes the output") == 0);
  ModelShape both = with_adapter(llama_7b(), "lora", {"embed_tokens"});
  both.adapter.modules_to_save = {"embed_tokens"};
  CHECK(refused(both) == "adapter.modules_to_save: \"embed_tokens\" means a table that is adapted, too");
}

TEST_CASE("modules to save that mean nothing, or a table that is the output as well, are refused") {
  ModelShape shape = with_adapter(llama_7b(), "lora");
  shape.adapter.modules_to_save = {"norm", "q_proj", "wte"};
  const auto wrong = adapted_matrices(shape);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().what == "adapter.modules_to_save: \"q_proj\", \"wte\" mean no table, output layer or norm");
  CHECK(wrong.error().hint.find("embed_tokens, input_layernorm, post_attention_layernorm, norm, lm_head") !=
        std::string::npos);
  shape.tie_word_embeddings = true;
  for (const char* name : {"lm_head", "embed_tokens", "model.*"}) {
    shape.adapter.modules_to_save = {"norm", name};
    const auto tied = adapted_matrices(shape);
    REQUIRE_FALSE(tied.ok());
    CHECK(tied.error().what.find("makes the output as well (tied)") != std::string::npos);
  }
  shape.adapter.modules_to_save = {"norm"};
  CHECK(adapted_matrices(shape).ok());
  shape.adapter.kind = "prompt", shape.adapter.targets.clear();
  CHECK(check_adapter(shape.adapter).error().message().find("adapter.modules_to_save says nothing to") == 0);
}

TEST_CASE("experts' matrices are adapted where targets name them, on the ranks of their expert and split by etp") {
  CHECK(adapted_matrices(with_adapter(mixtral_8x7b(), "lora"))->size() == 4 * 32);  // attention
  CHECK(adapted_matrices(with_adapter(mixtral_8x7b(), "lora", {"*.experts.3.*"}))->size() == 3 * 32);
  const ModelShape shape = with_adapter(mixtral_8x7b(), "lora", {"w1", "w2", "w3"});
  const auto matrices = adapted_matrices(shape);
  REQUIRE(matrices.ok());
  CHECK(matrices->size() == 3 * 8 * 32);
  const AdaptedMatrix &w1 = matrices->front(), &w2 = (*matrices)[2 * 8];  // all w1 and w3, then all w2
  CHECK(w1.a == "model.layers.0.block_sparse_moe.experts.0.w1.lora_A.weight");
  CHECK(w2.b == "model.layers.0.block_sparse_moe.experts.0.w2.lora_B.weight");
  ParallelDims dims;
  dims.tp = dims.dp_replicate = dims.ep = dims.etp = 2;
  const auto held = [&](const ParameterSpec& spec, int rank) {
    return shard_of(spec, shape, dims, coordinates_of(dims, rank)).extent;
  };
  using Extent = std::vector<std::int64_t>;
  CHECK(held(w1.own[0], 1) == Extent{8, 4096});  // of a matrix whose rows are split, every rank has all of A
  CHECK(held(w1.own[1], 1) == Extent{7168, 8});
  CHECK(held(w2.own[0], 1) == Extent{8, 7168});
  CHECK(held(w2.own[1], 1) == Extent{4096, 8});
  CHECK(held(w1.own[0], 2).front() == 0);  // which has the second half of the experts
  const auto counted = [&](const std::string& name, int rank) {
    const ParameterLayout layout(shape, {dims, coordinates_of(dims, rank)});
    return layout.is_counted(layout.find(name));
  };
  CHECK(counted(w1.a, 0));
  CHECK_FALSE(counted(w1.a, 1));  // the same numbers
  CHECK(counted(w1.b, 1));
}

TEST_CASE("shared experts' matrices are adapted where targets name them, and routers never") {
  ModelShape shape = mixtral_8x7b();
  shape.n_shared_experts = 1;
  CHECK(adapted_matrices(with_adapter(shape, "lora"))->size() == 4 * 32);
  CHECK(adapted_matrices(with_adapter(shape, "ia3"))->size() == 2 * 32);  // k_proj, v_proj
  const auto matrices = adapted_matrices(with_adapter(shape, "lora", {"down_proj"}));
  REQUIRE(matrices.ok());
  CHECK(matrices->size() == 32);
  for (const ParameterSpec& own : matrices->front().own) {
    CHECK(own.expert == -1);
    CHECK(own.tp_dim == -1);  // whole on every rank of tp, as the matrix is
  }
  const auto wrong = adapted_matrices(with_adapter(shape, "lora", {"gate"}));
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message().find("\"gate\" means no matrix that can be adapted") != std::string::npos);
  CHECK(wrong.error().message().find("o_proj, gate_proj, up_proj, down_proj, w1, w3, w2") != std::string::npos);
}

TEST_CASE("layers are named of which some ranks of ep hold adapted experts and others none") {
  const auto in_part = [](std::vector<std::string> targets, int ep) {
    const ModelShape shape = with_adapter(mixtral_8x7b(), "lora", std::move(targets));
    return layers_adapted_in_part(adapted_matrices(shape).value(), shape, ep);
  };
  CHECK(in_part({"w1", "q_proj"}, 8).empty());
  CHECK(in_part({"q_proj"}, 2).empty());
  CHECK(in_part({"*.layers.5.*.experts.3.w1", "*.layers.7.*.experts.[05].w1"}, 2) == std::vector<int>{5});
}

TEST_CASE("an adapter of a model of seven billion takes a fifth of the memory of all its weights, by the plan") {
  TrainingOutline outline;
  outline.shape = llama_7b();
  outline.sequence_length = 2048;
  outline.recompute.block = true;
  const auto planned = [&](const char* kind) {
    outline.adapter.kind = kind;
    return plan_training_memory(outline, {})->bytes;
  };
  const MemoryTable all = planned("none"), adapter = planned("lora");
  MESSAGE("planned bytes: ", all.total(), " for all weights, ", adapter.total(), " with LoRA of rank 8");
  CHECK(static_cast<double>(adapter.total()) <= 0.2 * static_cast<double>(all.total()));
  CHECK(adapter[MemoryCategory::optimizer] < all[MemoryCategory::optimizer] / 100);
  CHECK(adapter[MemoryCategory::weights] == all[MemoryCategory::weights]);
}

TEST_CASE("weights in four bits leave less than a third of those of a model of seven billion, by the plan") {
  TrainingOutline outline;
  outline.shape = llama_7b();
  outline.sequence_length = 2048;
  outline.recompute.block = true, outline.adapter.kind = "lora";
  const auto planned = [&](const char* format) {
    outline.adapter.base_weights = format;
    return plan_training_memory(outline, {})->bytes;
  };
  const MemoryTable full = planned("full"), eight = planned("int8"), four = planned("nf4");
  MESSAGE("planned bytes with LoRA of rank 8: ", full.total(), ", over int8 ", eight.total(), ", over nf4 ",
          four.total());
  constexpr std::int64_t in_layers = std::int64_t{32} * (4 * 4096 * 4096 + 3 * 4096 * 11008);
  CHECK(full[MemoryCategory::weights] - four[MemoryCategory::weights] == 2 * in_layers - in_layers * 9 / 16);
  CHECK(full[MemoryCategory::weights] - eight[MemoryCategory::weights] == 2 * in_layers - in_layers * 17 / 16);
  CHECK(four[MemoryCategory::gathered_weights] == full[MemoryCategory::gathered_weights]);  // every layer is adapted
}

TEST_CASE("a layout that would cut a block of codes is refused, with the matrix") {
  TrainingOutline outline;
  outline.shape = llama_7b();
  outline.shape.intermediate_size = 11008 - 64;
  outline.sequence_length = 2048, outline.dims.tp = 2;
  outline.adapter.kind = "lora";
  CHECK(plan_training_memory(outline, {}).ok());
  outline.adapter.base_weights = "nf4";
  const auto refused = plan_training_memory(outline, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("down_proj.weight a rank has parts of rows of 5472") != std::string::npos);
}

TEST_CASE("keys of an adapter that say nothing to its kind are refused together") {
  AdapterShape adapter;
  CHECK(check_adapter(adapter).ok());
  adapter.rank = 16, adapter.targets = {"q_proj"};
  CHECK(check_adapter(adapter).error().message().find("adapter.rank, adapter.targets say nothing to") == 0);
  adapter.kind = "ia3";
  CHECK(check_adapter(adapter).error().message().find("adapter.rank says nothing to adapter.kind = \"ia3\"") == 0);
  adapter.ranks = {{"q_proj", 4}}, adapter.alphas = {{"q_proj", 4}};
  CHECK(check_adapter(adapter).error().message().find("adapter.rank, adapter.ranks, adapter.alphas say nothing to") ==
        0);
  adapter.kind = "dora";
  CHECK(check_adapter(adapter).ok());
  adapter.virtual_tokens = 8;
  CHECK(check_adapter(adapter).error().message().find("adapter.virtual_tokens says nothing to") == 0);
  adapter.kind = "prompt", adapter.ranks.clear(), adapter.alphas.clear();
  CHECK(check_adapter(adapter).error().message().find("adapter.rank, adapter.targets say nothing to") == 0);
  adapter.rank = AdapterShape().rank, adapter.targets.clear();
  CHECK(check_adapter(adapter).ok());
}

TEST_CASE("embeddings before every text are one parameter, behind the table of tokens, that is trained alone") {
  ModelShape shape = resolve_shape(ModelShape()).value();
  shape.vocab_size = 100, shape.adapter.kind = "prompt", shape.adapter.virtual_tokens = 7;
  const std::vector<ParameterSpec> trained = parameter_list(shape), computed = parameter_list(frozen_shape(shape));
  REQUIRE(trained.size() == 1);
  CHECK(trained[0].name == prompt_name);
  CHECK(trained[0].shape == std::vector<std::int64_t>{7, shape.hidden_size});
  CHECK(computed[0].name == embedding_name(shape));
  CHECK(computed[1].name == prompt_name);
  ModelShape plain = shape;
  plain.adapter = {};
  CHECK(computed.size() == parameter_list(plain).size() + 1);
  CHECK(frozen_shape(shape).parameter_count() == plain.parameter_count() + 7 * shape.hidden_size);
  CHECK(virtual_token_ids(frozen_shape(shape)) == std::vector<std::int32_t>{100, 101, 102, 103, 104, 105, 106});
  CHECK(virtual_token_ids(plain).empty());
}

TEST_CASE("keys and values before every text are two parameters of each layer, split as its heads, and never codes") {
  for (const char* architecture : {"llama", "gpt2"}) {
    ModelShape shape;
    shape.architecture = architecture, shape.vocab_size = 100, shape.num_hidden_layers = 2;
    shape = resolve_shape(shape).value();
    const std::int64_t plain = shape.parameter_count();
    shape.adapter.kind = "prefix", shape.adapter.virtual_tokens = 7;
    const std::vector<ParameterSpec> trained = parameter_list(shape);
    REQUIRE(trained.size() == 4);
    for (int layer = 0; layer < 2; ++layer) {
      const auto at = static_cast<std::size_t>(2 * layer);
      CHECK(trained[at].name == prefix_keys_name(shape, layer));
      CHECK(trained[at + 1].name == prefix_values_name(shape, layer));
      for (const ParameterSpec& spec : {trained[at], trained[at + 1]}) {
        CHECK(spec.shape == std::vector<std::int64_t>{7, shape.kv_size()});
        CHECK(spec.layer == layer);
        CHECK(spec.tp_dim == 1);
        CHECK(is_of_prefix(spec));
        CHECK_FALSE(is_coded("nf4", spec));
      }
    }
    const ModelShape computed = frozen_shape(shape);
    CHECK(computed.virtual_keys);
    CHECK(computed.parameter_count() == plain + 2 * 2 * 7 * shape.kv_size());
    std::int64_t listed = 0;
    for (const ParameterSpec& spec : parameter_list(computed)) listed += spec.elements();
    CHECK(listed == computed.parameter_count());
    CHECK(virtual_token_ids(computed).front() == 100);
  }
}

TEST_CASE("a bottleneck is two layers behind each half that is named, whole on every rank, and begins as no change") {
  for (const char* architecture : {"llama", "gpt2"})
    for (const std::vector<std::string>& after :
         {std::vector<std::string>{"attention", "feed_forward"}, std::vector<std::string>{"feed_forward"}}) {
      CAPTURE(architecture);
      CAPTURE(after.size());
      ModelShape shape;
      shape.architecture = architecture, shape.vocab_size = 100, shape.num_hidden_layers = 2;
      shape = resolve_shape(shape).value();
      const std::int64_t plain = shape.parameter_count(), hidden = shape.hidden_size;
      shape.adapter.kind = "bottleneck", shape.adapter.bottleneck_size = 6, shape.adapter.bottleneck_after = after;
      REQUIRE(check_adapter(shape.adapter).ok());
      const std::vector<ParameterSpec> trained = parameter_list(shape);
      REQUIRE(trained.size() == 2 * 4 * after.size());
      const LayerHalf first = after.size() == 2 ? LayerHalf::attention : LayerHalf::feed_forward;
      const std::string prefix = bottleneck_prefix(shape, 0, first);
      CHECK(trained[0].name == prefix + "down.weight");
      CHECK(trained[0].shape == std::vector<std::int64_t>{6, hidden});
      CHECK(trained[0].init_std == 0.02);
      CHECK(trained[2].name == prefix + "up.weight");
      CHECK(trained[2].shape == std::vector<std::int64_t>{hidden, 6});
      ParallelDims split, sequence;
      split.tp = sequence.tp = 2, sequence.sp = true;
      for (const ParameterSpec& spec : trained) {
        CAPTURE(spec.name);
        CHECK(is_of_bottleneck(spec));
        CHECK(spec.tp_dim == -1);
        CHECK(spec.weight_decay == (spec.shape.size() == 2));
        CHECK((spec.init == ParameterSpec::Init::zeros) != spec.name.ends_with("down.weight"));
        CHECK_FALSE(is_coded("nf4", spec));
        CHECK_FALSE(has_addends(spec, split));
        CHECK(has_addends(spec, sequence));
      }
      const ModelShape computed = frozen_shape(shape);
      const auto places = static_cast<std::int64_t>(after.size());
      CHECK(computed.parameter_count() == plain + 2 * places * (2 * 6 * hidden + 6 + hidden));
      std::int64_t listed = 0;
      for (const ParameterSpec& spec : parameter_list(computed)) listed += spec.elements();
      CHECK(listed == computed.parameter_count());
    }
}

TEST_CASE("an encoder of embeddings is one unit, whole where any of it is asked for") {
  ModelShape shape = resolve_shape(ModelShape()).value();
  shape.vocab_size = 100, shape.adapter.kind = "p-tuning", shape.adapter.virtual_tokens = 7;
  MeshPlace place;
  place.dims.dp_shard = 2, place.dims.zero = 3;
  const ParameterLayout encoder(shape, place), with_head(with_scalar_head(shape), place);
  CHECK(encoder.parameters().size() == 7);
  CHECK(encoder.units().size() == 1);
  CHECK(with_head.parameters().size() == 8);
  CHECK(with_head.units().size() == 2);
}

TEST_CASE("the output layer of a reward model is trained behind whatever an adapter has beside the weights") {
  for (const char* kind : {"lora", "prompt", "p-tuning", "prefix", "bottleneck"}) {
    CAPTURE(kind);
    ModelShape shape = with_scalar_head(resolve_shape(ModelShape()).value());
    shape.vocab_size = 100, shape.adapter.kind = kind, shape.adapter.virtual_tokens = 7;
    const std::vector<ParameterSpec> trained = parameter_list(shape);
    REQUIRE(trained.size() > 1);
    CHECK(trained.back().name == scalar_head_name);
    CHECK(std::ranges::count(trained, std::string(scalar_head_name), &ParameterSpec::name) == 1);
    CHECK(shape.adapter.tokens_before() == (std::string(kind) == "lora" || std::string(kind) == "bottleneck" ? 0 : 7));
  }
}

TEST_CASE("what is said of a bottleneck has to name halves of a layer, and says nothing to other kinds") {
  AdapterShape adapter;
  adapter.kind = "bottleneck";
  const std::vector<std::string> none, one = {"feed_forward"}, other = {"mlp"}, twice = {"attention", "attention"};
  for (const auto& after : {none, other, twice}) {
    adapter.bottleneck_after = after;
    const Status status = check_adapter(adapter);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message().find("adapter.bottleneck_after = [") == 0);
  }
  adapter.bottleneck_after = one, adapter.targets = {"q_proj"};
  CHECK(check_adapter(adapter).error().message().find("adapter.targets says nothing") == 0);
  adapter.kind = "prefix", adapter.targets.clear();
  CHECK(check_adapter(adapter).error().message().find("adapter.bottleneck_after says nothing") == 0);
}
