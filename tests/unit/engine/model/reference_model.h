// The whole forward pass of a model in f64, by the plain loops of engine/ops/reference: what the model is held against.
#pragma once

#include <vector>

#include "contracts/settings/training/moe.h"
#include "engine/model/layers/micro_batch.h"
#include "engine/model/layers/rope_of.h"
#include "engine/model/store/parameter_store.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "tests/support/reference/moe_reference.h"
#include "tests/support/reference/reference.h"

namespace longhaul::test {

inline ModelShape tiny_shape(bool tied = true) {
  ModelShape shape;
  shape.vocab_size = 37;
  shape.hidden_size = 24;
  shape.intermediate_size = 40;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 8;
  shape.max_position_embeddings = 32;
  shape.tie_word_embeddings = tied;
  shape.initializer_range = 0.15;  // large enough that every path has a gradient worth comparing
  return shape;
}

// A tiny Mixtral: its router has something to distinguish.
inline ModelShape tiny_mixtral_shape() {
  ModelShape shape = tiny_shape();
  shape.architecture = "mixtral";
  shape.num_local_experts = 4, shape.num_experts_per_tok = 2;
  shape.intermediate_size = shape.moe_intermediate_size = 20;
  return shape;
}

// Which experts the tokens of each layer went to, and which of them had room.
struct Routing {
  std::vector<reference::Ids> ids, kept;
  double gap = HUGE_VAL;  // the smallest distance between values that the selection compared
};

inline ModelShape tiny_gpt2_shape(bool tied = true) {
  ModelShape shape = tiny_shape(tied);
  shape.architecture = "gpt2";
  shape.num_key_value_heads = 4;
  shape.head_dim = 6;
  return shape;
}

class ReferenceModel {
 public:
  using Vector = reference::Vector;
  // Experts: how they are balanced, and the routing, which is found where it is empty and taken as it is where not.
  MoeSettings moe;
  Routing* routing = nullptr;

  ReferenceModel(const ModelShape& shape, const ParameterLayout& layout, const std::vector<double>& flat)
      : s_(shape), layout_(layout), flat_(flat) {}

  Vector weight(const std::string& name) const {
    const FlatParameter& p = layout_.find(name);
    return Vector(flat_.begin() + p.begin, flat_.begin() + p.end);
  }

  // [tokens, vocab]
  Vector logits(const MicroBatch& batch) const {
    double auxiliary_loss = 0;
    return logits(batch, auxiliary_loss);
  }
  Vector logits(const MicroBatch& batch, double& auxiliary_loss) const {
    if (s_.is_gpt2()) return gpt2_logits(batch);
    Routing found;
    Routing& route = routing ? *routing : found;
    Vector router_logits;
    reference::Ids counted;
    const std::int64_t t = batch.tokens(), h = s_.hidden_size;
    const reference::Ids ids(batch.ids.begin(), batch.ids.end());
    const reference::Ids positions = positions_of(batch);
    const std::vector<float> f = rope_frequencies(s_.head_dim, s_.rope_theta, rope_scaling_of(s_));
    const Vector frequencies(f.begin(), f.end());
    const reference::AttentionCase attention = attention_of(batch);

    Vector x = reference::embedding(h, ids, weight("model.embed_tokens.weight"));
    for (int l = 0; l < static_cast<int>(s_.num_hidden_layers); ++l) {
      const std::string p = "model.layers." + std::to_string(l) + ".";
      const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, const Vector& v) {
        return reference::linear(t, in, out, v, weight(p + name + ".weight"), {});
      };
      const Vector n = reference::rmsnorm(t, h, s_.rms_norm_eps, x, weight(p + "input_layernorm.weight"));
      const Vector q = reference::rope(t, s_.num_attention_heads, s_.head_dim, frequencies, positions,
                                       linear("self_attn.q_proj", s_.q_size(), h, n), false);
      const Vector k = reference::rope(t, s_.num_key_value_heads, s_.head_dim, frequencies, positions,
                                       linear("self_attn.k_proj", s_.kv_size(), h, n), false);
      const Vector a = reference::attention(attention, q, k, linear("self_attn.v_proj", s_.kv_size(), h, n)).out;
      add(x, linear("self_attn.o_proj", h, s_.q_size(), a));
      const Vector m = reference::rmsnorm(t, h, s_.rms_norm_eps, x, weight(p + "post_attention_layernorm.weight"));
      if (s_.is_moe()) {
        add(x, experts(p + "block_sparse_moe.", static_cast<std::size_t>(l), m, route, router_logits, counted,
                       auxiliary_loss));
        continue;
      }
      const Vector act = reference::swiglu(linear("mlp.gate_proj", s_.intermediate_size, h, m),
                                           linear("mlp.up_proj", s_.intermediate_size, h, m));
      add(x, linear("mlp.down_proj", h, s_.intermediate_size, act));
    }
    if (s_.is_moe() && moe.balance == "aux" && moe.aux_loss == "hugging_face")
      auxiliary_loss += reference::moe_balance_loss(router(), router_logits, counted, moe.aux_loss_coef, true);
    x = reference::rmsnorm(t, h, s_.rms_norm_eps, x, weight("model.norm.weight"));
    return reference::linear(t, h, s_.vocab_size, x,
                             weight(s_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), {});
  }

  double loss(const MicroBatch& batch, const std::vector<float>& weights) const {
    double auxiliary_loss = 0, sum = 0, weight_sum = 0;
    const Vector losses = reference::cross_entropy(s_.vocab_size, logits(batch, auxiliary_loss),
                                                   reference::Ids(batch.targets.begin(), batch.targets.end()));
    for (std::size_t i = 0; i < losses.size(); ++i) sum += static_cast<double>(weights[i]) * losses[i];
    for (const float one : weights) weight_sum += static_cast<double>(one);
    return sum + weight_sum * auxiliary_loss;
  }

 private:
  reference::MoeRouter router() const {
    const auto score = s_.router_score == "sigmoid"   ? reference::MoeScore::sigmoid
                       : s_.router_score == "softmax" ? reference::MoeScore::softmax_selected
                                                      : reference::MoeScore::softmax_all;
    return {s_.num_local_experts, s_.num_experts_per_tok, score, s_.routed_scaling_factor,
            s_.n_group,           s_.topk_group,          2};
  }

  // Of one layer; adds its losses, or what a loss over all layers needs.
  Vector experts(const std::string& p, std::size_t l, const Vector& x, Routing& route, Vector& router_logits,
                 reference::Ids& counted, double& auxiliary_loss) const {
    const std::int64_t h = s_.hidden_size, ffn = s_.moe_intermediate_size, e = s_.num_local_experts;
    const auto t = static_cast<std::int64_t>(x.size()) / h;
    reference::MoeLayer layer;
    layer.router = router();
    layer.hidden = h, layer.ffn = ffn, layer.shared_ffn = s_.shared_size();
    layer.router_weight = weight(p + "gate.weight");
    const auto append = [&](Vector& all, const std::string& name) {
      const Vector one = weight(p + name + ".weight");
      all.insert(all.end(), one.begin(), one.end());
    };
    for (std::int64_t i = 0; i < e; ++i) {
      const std::string expert = "experts." + std::to_string(i) + ".";
      append(layer.gate, expert + "w1"), append(layer.up, expert + "w3"), append(layer.down, expert + "w2");
    }
    if (layer.shared_ffn > 0) {
      append(layer.shared_gate, "shared_experts.gate_proj"), append(layer.shared_up, "shared_experts.up_proj");
      append(layer.shared_down, "shared_experts.down_proj");
    }
    const Vector z = reference::linear(t, h, e, x, layer.router_weight, {});
    const Vector bias = s_.router_bias ? weight(p + "gate.e_score_correction_bias") : Vector();
    if (route.ids.size() == l) {
      route.ids.push_back(reference::moe_select(layer.router, z, bias));
      route.gap = std::min(route.gap, reference::moe_select_gap(layer.router, z, bias));
      const auto capacity = moe.capacity_factor > 0 ? moe_capacity(t, layer.router.top_k, e, moe.capacity_factor) : t;
      route.kept.push_back(reference::moe_kept(e, layer.router.top_k, route.ids[l],
                                               reference::moe_gates(layer.router, z, route.ids[l]), capacity,
                                               moe.drop_policy == "probability"));
    }
    reference::MoeRouter plain = layer.router;
    plain.groups = plain.groups_kept = 1;
    const reference::Ids chosen = s_.router_bias || s_.n_group > 1 ? reference::moe_select(plain, z, {}) : route.ids[l];
    router_logits.insert(router_logits.end(), z.begin(), z.end());
    counted.insert(counted.end(), chosen.begin(), chosen.end());
    if (moe.balance == "aux" && moe.aux_loss == "megatron")
      auxiliary_loss += reference::moe_balance_loss(layer.router, z, chosen, moe.aux_loss_coef, false);
    auxiliary_loss += reference::moe_z_loss(e, z, moe.z_loss_coef);
    return reference::moe_layer(layer, x, route.ids[l], route.kept[l]).out;
  }

  static reference::Ids positions_of(const MicroBatch& batch) {
    reference::Ids positions(batch.positions.begin(), batch.positions.end());
    if (positions.empty())
      for (std::int64_t i = 0; i < batch.tokens(); ++i)
        positions.push_back(static_cast<std::int32_t>(i % batch.length));
    return positions;
  }
  reference::AttentionCase attention_of(const MicroBatch& batch) const {
    reference::AttentionCase attention;
    attention.batch = batch.sequences, attention.seq = attention.kv_seq = batch.length;
    attention.heads = s_.num_attention_heads, attention.kv_heads = s_.num_key_value_heads,
    attention.head_dim = s_.head_dim, attention.window = s_.sliding_window;
    attention.scale = 1.0 / std::sqrt(static_cast<double>(s_.head_dim));
    attention.first_key.assign(batch.first_key.begin(), batch.first_key.end());
    return attention;
  }
  Vector gpt2_logits(const MicroBatch& batch) const {
    const std::int64_t t = batch.tokens(), h = s_.hidden_size, f = s_.intermediate_size;
    const auto norm = [&](const std::string& name, const Vector& v) {
      return reference::layernorm(t, h, s_.rms_norm_eps, v, weight(name + ".weight"), weight(name + ".bias"));
    };
    Vector x = reference::embedding(h, {batch.ids.begin(), batch.ids.end()}, weight("transformer.wte.weight"));
    add(x, reference::embedding(h, positions_of(batch), weight("transformer.wpe.weight")));
    for (int l = 0; l < static_cast<int>(s_.num_hidden_layers); ++l) {
      const std::string p = "transformer.h." + std::to_string(l) + ".";
      const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, const Vector& v) {
        return reference::linear(t, in, out, v, weight(p + name + ".weight"), weight(p + name + ".bias"));
      };
      const Vector n = norm(p + "ln_1", x);
      const Vector a = reference::attention(attention_of(batch), linear("attn.q_proj", h, h, n),
                                            linear("attn.k_proj", h, h, n), linear("attn.v_proj", h, h, n))
                           .out;
      add(x, linear("attn.c_proj", h, h, a));
      add(x, linear("mlp.c_proj", h, f, reference::gelu(linear("mlp.c_fc", f, h, norm(p + "ln_2", x)))));
    }
    return reference::linear(t, h, s_.vocab_size, norm("transformer.ln_f", x),
                             weight(s_.tie_word_embeddings ? "transformer.wte.weight" : "lm_head.weight"), {});
  }
  static void add(Vector& x, const Vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  ModelShape s_;
  const ParameterLayout& layout_;
  const std::vector<double>& flat_;
};

}  // namespace longhaul::test
