// The whole forward pass of a model in f64, by the plain loops of engine/ops/reference: what the model is held against.
#pragma once

#include <vector>

#include "engine/model/micro_batch.h"
#include "engine/model/parameter_store.h"
#include "engine/model/rope_of.h"
#include "engine/ops/reference/reference.h"

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
  ReferenceModel(const ModelShape& shape, const ParameterLayout& layout, const std::vector<double>& flat)
      : s_(shape), layout_(layout), flat_(flat) {}

  Vector weight(const std::string& name) const {
    const FlatParameter& p = layout_.find(name);
    return Vector(flat_.begin() + p.begin, flat_.begin() + p.end);
  }

  // [tokens, vocab]
  Vector logits(const MicroBatch& batch) const {
    if (s_.is_gpt2()) return gpt2_logits(batch);
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
      const Vector act = reference::swiglu(linear("mlp.gate_proj", s_.intermediate_size, h, m),
                                           linear("mlp.up_proj", s_.intermediate_size, h, m));
      add(x, linear("mlp.down_proj", h, s_.intermediate_size, act));
    }
    x = reference::rmsnorm(t, h, s_.rms_norm_eps, x, weight("model.norm.weight"));
    return reference::linear(t, h, s_.vocab_size, x,
                             weight(s_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), {});
  }

  double loss(const MicroBatch& batch, const std::vector<float>& weights) const {
    const Vector losses = reference::cross_entropy(s_.vocab_size, logits(batch),
                                                   reference::Ids(batch.targets.begin(), batch.targets.end()));
    double sum = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) sum += static_cast<double>(weights[i]) * losses[i];
    return sum;
  }

 private:
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
    attention.head_dim = s_.head_dim;
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
