#include "contracts/model/parameter_list.h"

#include <algorithm>
#include <cmath>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "contracts/model/adapter_list.h"

namespace longhaul {

namespace {
std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (std::int64_t extent : extents) n *= extent;
  return n;
}
}  // namespace

std::int64_t Box::elements() const {
  return product(extent);
}
std::int64_t ParameterSpec::elements() const {
  return product(shape);
}

std::string layer_prefix(const ModelShape& shape, int layer) {
  return (shape.is_gpt2() ? "transformer.h." : "model.layers.") + std::to_string(layer) + ".";
}

std::string embedding_name(const ModelShape& shape) {
  return shape.is_gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

std::string output_name(const ModelShape& shape) {
  if (shape.scalar_head) return scalar_head_name;
  return shape.tie_word_embeddings ? embedding_name(shape) : "lm_head.weight";
}

namespace {

std::string attention_prefix(const ModelShape& shape, int layer) {
  return layer_prefix(shape, layer) + (shape.is_gpt2() ? "attn." : "self_attn.");
}
constexpr const char *keys_ending = "prefix_keys", *values_ending = "prefix_values";

}  // namespace

std::string prefix_keys_name(const ModelShape& shape, int layer) {
  return attention_prefix(shape, layer) + keys_ending;
}

std::string prefix_values_name(const ModelShape& shape, int layer) {
  return attention_prefix(shape, layer) + values_ending;
}

bool is_of_prefix(const ParameterSpec& parameter) {
  return ends_with(parameter.name, keys_ending) || ends_with(parameter.name, values_ending);
}

std::string bottleneck_prefix(const ModelShape& shape, int layer, LayerHalf half) {
  return layer_prefix(shape, layer) + (half == LayerHalf::attention ? "attention" : "feed_forward") + "_bottleneck.";
}

bool is_of_bottleneck(const ParameterSpec& parameter) {
  return parameter.name.find("_bottleneck.") != std::string::npos;
}

namespace {

// The output's own matrix, where it has one.
void add_output(const ModelShape& s, std::vector<ParameterSpec>& list) {
  const double range = s.embedding_initializer_range > 0 ? s.embedding_initializer_range : s.initializer_range;
  ParameterSpec spec{output_name(s), {s.output_size(), s.hidden_size}, ParameterSpec::Init::normal, range};
  spec.tp_dim = s.scalar_head ? -1 : 0, spec.last_stage = true;
  if (!s.tie_word_embeddings) list.push_back(std::move(spec));
}

// Behind the table of tokens, where it is there. Whole on every rank of tp: it is small.
void add_prompt(const ModelShape& s, std::vector<ParameterSpec>& list) {
  const double std_dev = list.back().init_std;
  if (s.virtual_tokens > 0 && !s.virtual_keys)
    list.push_back({prompt_name, {s.virtual_tokens, s.hidden_size}, ParameterSpec::Init::normal, std_dev});
}

// Behind a layer's attention. As split as its keys and values are.
void add_prefix(const ModelShape& s, int layer, std::vector<ParameterSpec>& list) {
  if (s.virtual_tokens == 0 || !s.virtual_keys) return;
  for (const std::string& name : {prefix_keys_name(s, layer), prefix_values_name(s, layer)})
    list.push_back({name, {s.virtual_tokens, s.kv_size()}, ParameterSpec::Init::normal, 1, true, layer, 1, false});
}

// Behind a half of a layer.
void add_bottleneck(const ModelShape& s, int layer, LayerHalf half, std::vector<ParameterSpec>& list) {
  using Init = ParameterSpec::Init;
  constexpr double down_std = 0.02;  // AdapterHub's init_weights = "bert"
  if (half == LayerHalf::attention ? !s.bottleneck.after_attention : !s.bottleneck.after_feed_forward) return;
  const std::int64_t size = s.bottleneck.size, hidden = s.hidden_size;
  const std::string p = bottleneck_prefix(s, layer, half);
  list.push_back({p + "down.weight", {size, hidden}, Init::normal, down_std, true, layer, -1, false});
  list.push_back({p + "down.bias", {size}, Init::zeros, 0, false, layer, -1, false});
  list.push_back({p + "up.weight", {hidden, size}, Init::zeros, 0, true, layer, -1, false});
  list.push_back({p + "up.bias", {hidden}, Init::zeros, 0, false, layer, -1, false});
}

// Where a layer's parameters of GPT-2 stand: matrices with their biases, of which q, k, v make one range.
class Gpt2List {
 public:
  explicit Gpt2List(const ModelShape& shape) : s_(shape) {}

  std::vector<ParameterSpec> make() {
    const double range = s_.initializer_range;
    const double embedding_range = s_.embedding_initializer_range > 0 ? s_.embedding_initializer_range : range;
    list_.push_back({embedding_name(s_), {s_.vocab_size, s_.hidden_size}, Init::normal, embedding_range, true, -1, 0});
    add_prompt(s_, list_);
    list_.push_back({"transformer.wpe.weight", {s_.max_position_embeddings, s_.hidden_size}, Init::normal, range});
    for (layer_ = 0; layer_ < static_cast<int>(s_.num_hidden_layers); ++layer_) add_layer();
    layer_ = -1;
    norm("transformer.ln_f");
    list_[list_.size() - 2].last_stage = list_.back().last_stage = true;
    add_output(s_, list_);
    return std::move(list_);
  }

 private:
  using Init = ParameterSpec::Init;
  void vector(const std::string& name, std::int64_t size, Init init, int tp_dim) {
    list_.push_back({name, {size}, init, 0, false, layer_, tp_dim, false});
  }
  void norm(const std::string& name) {
    vector(name + ".weight", s_.hidden_size, Init::ones, -1);
    vector(name + ".bias", s_.hidden_size, Init::zeros, -1);
  }
  void matrix(const std::string& name, std::int64_t out, std::int64_t in, double std_dev, int tp_dim) {
    list_.push_back({name + ".weight", {out, in}, Init::normal, std_dev, true, layer_, tp_dim, false});
  }
  void add_layer() {
    const std::int64_t h = s_.hidden_size, f = s_.intermediate_size;
    const double range = s_.initializer_range;
    const double output_range = range / std::sqrt(2.0 * static_cast<double>(s_.num_hidden_layers));
    const std::string p = layer_prefix(s_, layer_);
    norm(p + "ln_1");
    for (const char* part : {"q", "k", "v"}) matrix(p + "attn." + part + "_proj", h, h, range, 0);
    for (const char* part : {"q", "k", "v"}) vector(p + "attn." + part + "_proj.bias", h, Init::zeros, 0);
    matrix(p + "attn.c_proj", h, h, output_range, 1);
    vector(p + "attn.c_proj.bias", h, Init::zeros, -1);
    add_prefix(s_, layer_, list_);
    add_bottleneck(s_, layer_, LayerHalf::attention, list_);
    norm(p + "ln_2");
    matrix(p + "mlp.c_fc", f, h, range, 0);
    vector(p + "mlp.c_fc.bias", f, Init::zeros, 0);
    matrix(p + "mlp.c_proj", h, f, output_range, 1);
    vector(p + "mlp.c_proj.bias", h, Init::zeros, -1);
    add_bottleneck(s_, layer_, LayerHalf::feed_forward, list_);
  }

  const ModelShape& s_;
  std::vector<ParameterSpec> list_;
  int layer_ = -1;
};

void add_experts(const ModelShape& s, int layer, const std::string& p, double range, double output_range,
                 std::vector<ParameterSpec>& list) {
  using Init = ParameterSpec::Init;
  const std::int64_t hidden = s.hidden_size, ffn = s.moe_intermediate_size, shared = s.shared_size();
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in, double std_dev) {
    list.push_back({p + name, {out, in}, Init::normal, std_dev, true, layer, -1, false});
  };
  const auto of_expert = [&](std::int64_t expert, const char* name, std::int64_t out, std::int64_t in, double std_dev,
                             int etp_dim) {
    matrix("experts." + std::to_string(expert) + "." + name + ".weight", out, in, std_dev);
    list.back().expert = static_cast<int>(expert), list.back().tp_dim = etp_dim;
  };
  matrix("gate.weight", s.num_local_experts, hidden, range);
  if (s.router_bias)
    list.push_back(
        {p + "gate.e_score_correction_bias", {s.num_local_experts}, Init::zeros, 0, false, layer, -1, false});
  if (shared > 0) {
    matrix("shared_experts.gate_proj.weight", shared, hidden, range);
    matrix("shared_experts.up_proj.weight", shared, hidden, range);
    matrix("shared_experts.down_proj.weight", hidden, shared, output_range);
  }
  for (std::int64_t e = 0; e < s.num_local_experts; ++e) {
    of_expert(e, "w1", ffn, hidden, range, 0);
    of_expert(e, "w3", ffn, hidden, range, 0);
  }
  for (std::int64_t e = 0; e < s.num_local_experts; ++e) of_expert(e, "w2", hidden, ffn, output_range, 1);
}

std::vector<ParameterSpec> adapter_list(const ModelShape& shape) {
  const auto matrices = adapted_matrices(shape);
  LH_ASSERT(matrices.ok(), matrices.error().message());
  std::vector<ParameterSpec> list;
  for (const AdaptedMatrix& matrix : *matrices) list.insert(list.end(), matrix.own.begin(), matrix.own.end());
  return list;
}

}  // namespace

std::vector<ParameterSpec> parameter_list(const ModelShape& s) {
  if (s.adapter.on()) return adapter_list(s);
  if (s.is_gpt2()) return Gpt2List(s).make();
  using Init = ParameterSpec::Init;
  const double range = s.initializer_range;
  const double embedding_range = s.embedding_initializer_range > 0 ? s.embedding_initializer_range : range;
  const double output_range = range / std::sqrt(2.0 * static_cast<double>(s.num_hidden_layers));
  std::vector<ParameterSpec> list;
  list.push_back(
      {"model.embed_tokens.weight", {s.vocab_size, s.hidden_size}, Init::normal, embedding_range, true, -1, 0, false});
  add_prompt(s, list);
  for (int layer = 0; layer < static_cast<int>(s.num_hidden_layers); ++layer) {
    const std::string p = layer_prefix(s, layer);
    const auto matrix = [&](const char* name, std::int64_t out, std::int64_t in, double std_dev, int tp_dim) {
      list.push_back({p + name, {out, in}, Init::normal, std_dev, true, layer, tp_dim, false});
    };
    list.push_back({p + "input_layernorm.weight", {s.hidden_size}, Init::ones, 0, false, layer, -1, false});
    matrix("self_attn.q_proj.weight", s.q_size(), s.hidden_size, range, 0);
    matrix("self_attn.k_proj.weight", s.kv_size(), s.hidden_size, range, 0);
    matrix("self_attn.v_proj.weight", s.kv_size(), s.hidden_size, range, 0);
    matrix("self_attn.o_proj.weight", s.hidden_size, s.q_size(), output_range, 1);
    add_prefix(s, layer, list);
    add_bottleneck(s, layer, LayerHalf::attention, list);
    list.push_back({p + "post_attention_layernorm.weight", {s.hidden_size}, Init::ones, 0, false, layer, -1, false});
    if (s.is_moe()) {
      add_experts(s, layer, p + "block_sparse_moe.", range, output_range, list);
    } else {
      matrix("mlp.gate_proj.weight", s.intermediate_size, s.hidden_size, range, 0);
      matrix("mlp.up_proj.weight", s.intermediate_size, s.hidden_size, range, 0);
      matrix("mlp.down_proj.weight", s.hidden_size, s.intermediate_size, output_range, 1);
    }
    add_bottleneck(s, layer, LayerHalf::feed_forward, list);
  }
  list.push_back({"model.norm.weight", {s.hidden_size}, Init::ones, 0, false, -1, -1, true});
  add_output(s, list);
  return list;
}

bool is_norm(const ParameterSpec& parameter) {
  return parameter.shape.size() == 1 &&
         (parameter.name.find("norm.") != std::string::npos || parameter.name.find(".ln_") != std::string::npos);
}

std::vector<int> stages_of(const ParameterSpec& parameter, const ModelShape& shape, const StageLayout& stages) {
  if (parameter.layer >= 0) return {stage_of_layer(stages, parameter.layer)};
  const int last = stages.stages() - 1;
  if (parameter.last_stage) return {last};
  // A tied embedding stands on both ends; learned positions only where tokens are looked up.
  if (shape.tie_word_embeddings && last > 0 && parameter.name == embedding_name(shape)) return {0, last};
  return {0};
}

Box shard_of(const ParameterSpec& parameter, const ModelShape& shape, const ParallelDims& dims,
             const RankCoordinates& at) {
  return shard_of(parameter, shape, dims, at, even_stages(static_cast<int>(shape.num_hidden_layers), dims.pp, dims.vp));
}

Box shard_of(const ParameterSpec& parameter, const ModelShape& shape, const ParallelDims& dims,
             const RankCoordinates& at, const StageLayout& stages) {
  LH_ASSERT(stages.pp == dims.pp && stages.vp == dims.vp,
            format("layout={} stages of pp={} vp={}", dims.to_string(), stages.pp, stages.vp));
  Box box{std::vector<std::int64_t>(parameter.shape.size(), 0), parameter.shape};
  bool here = false;
  for (const int stage : stages_of(parameter, shape, stages)) here |= stage % dims.pp == at.pp;
  if (!here) {
    box.extent[0] = 0;
    return box;
  }
  int parts = dims.tp, part = at.tp;
  if (parameter.expert >= 0) {
    const ExpertCoordinates experts = expert_coordinates_of(dims, at);
    parts = dims.etp, part = experts.etp;
    if (parameter.expert * dims.ep / shape.num_local_experts != experts.ep) {
      box.extent[0] = 0;
      return box;
    }
  }
  if (parameter.tp_dim >= 0 && parts > 1) {
    const auto dim = static_cast<std::size_t>(parameter.tp_dim);
    const std::int64_t per_rank = (parameter.shape[dim] + parts - 1) / parts;  // the last shard may be shorter
    box.offset[dim] = std::min(per_rank * part, parameter.shape[dim]);
    box.extent[dim] = std::min(per_rank, parameter.shape[dim] - box.offset[dim]);
  }
  return box;
}

std::uint64_t parameter_stream(const std::string& name) {
  return xxh3_64(name, 0x706172616d);
}

}  // namespace longhaul
