#include "engine/model/inference_model.h"

#include <cstring>

#include "base/text.h"
#include "engine/model/block.h"
#include "engine/model/model_folder.h"
#include "engine/model/rope_of.h"
#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gelu.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/swiglu.h"

namespace longhaul {

// The tokens of all steps, one after the other.
struct InferenceModel::Rows {
  std::int64_t count = 0;
  std::vector<std::int32_t> ids, positions;
  std::vector<std::int64_t> begins;  // of each step
};

Result<InferenceModel> InferenceModel::load(const std::string& folder, DType dtype) {
  LH_TRY(const HfConfig config, load_model_config(folder));
  LH_TRY(InferenceWeights weights, load_inference_weights(folder, config.shape, dtype).with_context(folder));
  return InferenceModel(config.shape, std::move(weights));
}

InferenceModel::InferenceModel(ModelShape shape, InferenceWeights weights)
    : shape_(std::move(shape)),
      weights_(std::move(weights)),
      rope_(shape_.is_gpt2() ? RopeTable() : rope_table_of(shape_, shape_.max_position_embeddings)) {}

Status InferenceModel::check(std::span<const SequenceStep> steps, LogitsWanted wanted, std::span<float> logits) const {
  std::size_t rows = wanted == LogitsWanted::last ? steps.size() : 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const SequenceStep& step = steps[i];
    const auto count = static_cast<std::int64_t>(step.tokens.size());
    if (!step.cache || step.tokens.empty())
      return make_error(ErrorCode::invalid_input, format("sequence {} brings no token or no cache", i));
    for (std::size_t j = 0; j < i; ++j)
      if (steps[j].cache == step.cache)
        return make_error(ErrorCode::invalid_input, format("sequences {} and {} share a cache", j, i));
    const std::int64_t room = std::min(step.cache->length_max(), shape_.max_position_embeddings);
    if (step.cache->length() + count > room)
      return make_error(ErrorCode::invalid_input, format("sequence {} would have {} tokens, there is room for {}", i,
                                                         step.cache->length() + count, room));
    if (step.cache->dtype() != weights_.dtype)
      return make_error(ErrorCode::invalid_input, format("sequence {} has a cache of another type", i));
    for (const std::int32_t id : step.tokens)
      if (id < 0 || id >= shape_.vocab_size)
        return make_error(ErrorCode::invalid_input,
                          format("token {} is outside the model's vocabulary of {}", id, shape_.vocab_size));
    if (wanted == LogitsWanted::all) rows += step.tokens.size();
  }
  if (steps.empty()) return make_error(ErrorCode::invalid_input, "no sequences");
  if (logits.size() < rows * static_cast<std::size_t>(shape_.vocab_size))
    return make_error(ErrorCode::invalid_input,
                      format("room for {} logits, {} rows of {} are wanted", logits.size(), rows, shape_.vocab_size));
  return {};
}

void InferenceModel::reserve(std::int64_t tokens) {
  if (tokens <= tokens_max_) return;
  tokens_max_ = tokens;
  const DType t = weights_.dtype;
  x_ = Tensor(t, {tokens, shape_.hidden_size});
  normed_ = Tensor(t, {tokens, shape_.hidden_size});
  out_ = Tensor(t, {tokens, shape_.hidden_size});
  qkv_ = Tensor(t, {tokens, shape_.q_size() + 2 * shape_.kv_size()});
  attention_ = Tensor(t, {tokens, shape_.q_size()});
  gate_up_ = Tensor(t, {tokens, shape_.mlp_width()});
  activated_ = Tensor(t, {tokens, shape_.intermediate_size});
}

void InferenceModel::attend(const ComputeContext& context, std::span<const SequenceStep> steps, int layer, Rows& rows) {
  const std::int64_t q = shape_.q_size(), kv = shape_.kv_size(), width = q + 2 * kv, d = shape_.head_dim;
  const std::int64_t row_bytes = kv * dtype_bytes(weights_.dtype);
  const View qkv = qkv_.view(), attention = attention_.view();
  // Keys and values go behind what each cache holds; its length moves on only after the last layer.
  for (std::size_t i = 0; i < steps.size(); ++i) {
    KvCache& cache = *steps[i].cache;
    for (std::int64_t t = 0; t < static_cast<std::int64_t>(steps[i].tokens.size()); ++t) {
      const View row = qkv.rows(rows.begins[i] + t, rows.begins[i] + t + 1);
      const std::int64_t to = cache.length() + t;
      std::memcpy(cache.keys(layer).rows(to, to + 1).data(), columns_of(row, 1, q, kv).data(),
                  static_cast<std::size_t>(row_bytes));
      std::memcpy(cache.values(layer).rows(to, to + 1).data(), columns_of(row, 1, q + kv, kv).data(),
                  static_cast<std::size_t>(row_bytes));
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    KvCache& cache = *steps[i].cache;
    const auto count = static_cast<std::int64_t>(steps[i].tokens.size());
    const View own = qkv.rows(rows.begins[i], rows.begins[i] + count),
               out = attention.rows(rows.begins[i], rows.begins[i] + count);
    if (count == 1) {
      const KvCacheView view{cache.keys(layer), cache.values(layer), cache.length() + 1};
      attention_decode(context, {shape_.num_attention_heads, shape_.num_key_value_heads, d}, columns_of(own, 1, 0, q),
                       {&view, 1}, out);
    } else {
      AttentionShape shape;
      shape.batch = 1, shape.seq = count, shape.kv_seq = cache.length() + count;
      shape.heads = shape_.num_attention_heads, shape.kv_heads = shape_.num_key_value_heads, shape.head_dim = d;
      shape.q_stride = width;
      attention_forward(context, shape, columns_of(own, count, 0, q), cache.keys(layer), cache.values(layer), out, {});
    }
  }
}

void InferenceModel::normalise(const ComputeContext& context, const NormWeights& norm, ConstView x, View y,
                               std::int64_t rows) const {
  const auto eps = static_cast<float>(shape_.rms_norm_eps);
  if (shape_.is_gpt2())
    layernorm_forward(context, {rows, shape_.hidden_size, eps}, x, norm.weight, norm.bias, y, {});
  else
    rmsnorm_forward(context, {rows, shape_.hidden_size, eps}, x, norm.weight, y, {});
}

void InferenceModel::add_and_normalise(const ComputeContext& context, const NormWeights& norm, ConstView branch, View x,
                                       View y, std::int64_t rows) const {
  const auto eps = static_cast<float>(shape_.rms_norm_eps);
  if (shape_.is_gpt2())
    add_layernorm_forward(context, {rows, shape_.hidden_size, eps}, x, branch, {}, norm.weight, norm.bias, x, y, {});
  else
    add_rmsnorm_forward(context, {rows, shape_.hidden_size, eps}, x, branch, norm.weight, x, y, {});
}

void InferenceModel::embed(const ComputeContext& context, const Rows& rows) {
  const View x = first_rows(x_, rows.count), places = first_rows(out_, rows.count);
  weights_.embedding.gather_rows(context, rows.ids, x);
  if (weights_.positions.out() == 0) return;
  weights_.positions.gather_rows(context, rows.positions, places);
  add(context, x, places, x);
}

void InferenceModel::run_block(const ComputeContext& context, std::span<const SequenceStep> steps, int layer,
                               Rows& rows) {
  const InferenceWeights::Block& block = weights_.blocks[static_cast<std::size_t>(layer)];
  const std::int64_t t = rows.count, f = shape_.intermediate_size;
  const std::int64_t q = shape_.q_size(), kv = shape_.kv_size(), width = q + 2 * kv;
  const View x = first_rows(x_, t), normed = first_rows(normed_, t), out = first_rows(out_, t),
             qkv = first_rows(qkv_, t);

  block.qkv.apply(context, t, normed, qkv);
  if (!shape_.is_gpt2()) {
    rope_apply(context, {t, shape_.num_attention_heads, shape_.head_dim, width}, rope_, rows.positions, 0,
               columns_of(qkv, t, 0, q));
    rope_apply(context, {t, shape_.num_key_value_heads, shape_.head_dim, width}, rope_, rows.positions, 0,
               columns_of(qkv, t, q, kv));
  }
  attend(context, steps, layer, rows);
  block.o.apply(context, t, first_rows(attention_, t), out);
  add_and_normalise(context, block.post_attention_norm, out, x, normed, t);
  const View gate_up = first_rows(gate_up_, t), activated = first_rows(activated_, t);
  block.gate_up.apply(context, t, normed, gate_up);
  if (shape_.is_gpt2())
    gelu_forward(context, gate_up, activated);
  else
    swiglu_forward(context, {t, f, 2 * f}, columns_of(gate_up, t, 0, f), columns_of(gate_up, t, f, f), activated);
  block.down.apply(context, t, activated, out);
  const bool is_last = layer + 1 == static_cast<int>(shape_.num_hidden_layers);
  const NormWeights& next =
      is_last ? weights_.final_norm : weights_.blocks[static_cast<std::size_t>(layer) + 1].input_norm;
  add_and_normalise(context, next, out, x, normed, t);
}

Status InferenceModel::forward(const ComputeContext& context, std::span<const SequenceStep> steps, LogitsWanted wanted,
                               std::span<float> logits) {
  LH_CHECK(check(steps, wanted, logits));
  Rows rows;
  for (const SequenceStep& step : steps) {
    rows.begins.push_back(static_cast<std::int64_t>(rows.ids.size()));
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      rows.ids.push_back(step.tokens[i]);
      rows.positions.push_back(static_cast<std::int32_t>(step.cache->length()) + static_cast<std::int32_t>(i));
    }
  }
  rows.count = static_cast<std::int64_t>(rows.ids.size());
  reserve(rows.count);
  const std::int64_t h = shape_.hidden_size, vocab = shape_.vocab_size;
  embed(context, rows);
  normalise(context, weights_.blocks.front().input_norm, first_rows(x_, rows.count), first_rows(normed_, rows.count),
            rows.count);
  for (int layer = 0; layer < static_cast<int>(shape_.num_hidden_layers); ++layer)
    run_block(context, steps, layer, rows);
  for (const SequenceStep& step : steps) step.cache->advance(static_cast<std::int64_t>(step.tokens.size()));

  if (wanted == LogitsWanted::all) {
    weights_.output_weights().apply(context, rows.count, first_rows(normed_, rows.count),
                                    View(logits.data(), Shape{rows.count, vocab}));
  } else if (wanted == LogitsWanted::last) {
    // The last rows of all sequences side by side: one product over the vocabulary.
    const auto sequences = static_cast<std::int64_t>(steps.size());
    const std::int64_t row_bytes = h * dtype_bytes(weights_.dtype);
    for (std::int64_t i = 0; i < sequences; ++i) {
      const std::int64_t last = (i + 1 < sequences ? rows.begins[static_cast<std::size_t>(i) + 1] : rows.count) - 1;
      std::memcpy(out_.view().rows(i, i + 1).data(), normed_.view().rows(last, last + 1).data(),
                  static_cast<std::size_t>(row_bytes));
    }
    weights_.output_weights().apply(context, sequences, first_rows(out_, sequences),
                                    View(logits.data(), Shape{sequences, vocab}));
  }
  return {};
}

}  // namespace longhaul
