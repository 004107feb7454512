#include "engine/model/layers/attention_layer.h"

namespace longhaul {

namespace {
ContextTokens tokens_of(const MicroBatch& batch) {
  return {batch.sequences, batch.length, batch.first_key, batch.whole_first_key, batch.host_first_key};
}
}  // namespace

AttentionLayer::AttentionLayer(const ParameterStore& parameters, const RopeTable& rope, Activations& activations,
                               TensorParallel& tensor, ContextAttention& attention, LowPrecisionState* low_precision,
                               AdapterDropout* dropout, int layer, int index)
    : parameters_(parameters),
      rope_(rope),
      activations_(activations),
      linear_(tensor, activations, parameters.shape().hidden_size,
              LowPrecisionLinear(low_precision, layer, LayerMatrix::qkv),
              LowPrecisionLinear(low_precision, layer, LayerMatrix::attention_output)),
      attention_(attention),
      dropout_(dropout),
      index_(index),
      hidden_(parameters.shape().hidden_size),
      q_(parameters.shape().q_size() / tensor.size()),
      kv_(parameters.shape().kv_size() / tensor.size()),
      heads_(parameters.shape().num_attention_heads / tensor.size()),
      kv_heads_(parameters.shape().num_key_value_heads / tensor.size()),
      head_dim_(parameters.shape().head_dim),
      prefix_(parameters, layer, q_, kv_) {
  const ModelShape& s = parameters.shape();
  const std::string prefix = layer_prefix(s, layer) + (s.is_gpt2() ? "attn." : "self_attn.");
  const std::string output = prefix + (s.is_gpt2() ? "c_proj" : "o_proj");
  const ParameterLayout& layout = parameters.layout();
  at_.qkv = layout.find(prefix + "q_proj.weight").begin;
  at_.o = layout.find(output + ".weight").begin;
  if (!s.is_gpt2()) return;
  at_.qkv_bias = layout.find(prefix + "q_proj.bias").begin;
  at_.o_bias = layout.find(output + ".bias").begin;
}

ConstView AttentionLayer::output_bias() const {
  return at_.o_bias < 0 ? ConstView() : parameters_.vector(at_.o_bias, hidden_);
}

void AttentionLayer::rotate(const ComputeContext& context, const MicroBatch& batch, View qkv, bool inverse) const {
  if (parameters_.shape().is_gpt2()) return;
  const std::int64_t t = batch.tokens(), width = q_ + 2 * kv_;
  rope_apply(context, {t, heads_, head_dim_, width}, rope_, batch.positions, batch.length, columns_of(qkv, t, 0, q_),
             inverse);
  rope_apply(context, {t, kv_heads_, head_dim_, width}, rope_, batch.positions, batch.length,
             columns_of(qkv, t, q_, kv_), inverse);
}

void AttentionLayer::forward(const ComputeContext& context, int slot_index, View y) {
  restore(context, slot_index);
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_.row_parallel(context, slot.batch.tokens(), q_, slot.blocks[static_cast<std::size_t>(index_)].attention,
                       parameters_.weight(at_.o, hidden_, q_), y, beside_o(slot.batch));
}

void AttentionLayer::restore(const ComputeContext& context, int slot_index) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t t = slot.batch.tokens(), width = q_ + 2 * kv_;
  linear_.column_parallel(context, t, width, a.input_norm, parameters_.weight(at_.qkv, width, hidden_), a.qkv,
                          at_.qkv_bias < 0 ? ConstView() : parameters_.vector(at_.qkv_bias, width),
                          beside_qkv(slot.batch));
  rotate(context, slot.batch, a.qkv, false);
  prefix_.put(context, slot.batch, a.qkv);
  attention_.forward(context, tokens_of(slot.batch), a.qkv, a.attention, first_floats(a.log_sum_exp, t * heads_));
}

void AttentionLayer::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens(), width = q_ + 2 * kv_;
  const View dattention = activations_.workspace().attention;
  linear_.row_parallel_backward(context, t, q_, dy, parameters_.weight(at_.o, hidden_, q_), g.o, dattention, {},
                                beside_o(slot.batch));
  if (!activations_.split_backward()) linear_.expect_all_rows(context, a.input_norm, t);
  attention_.backward(context, tokens_of(slot.batch), dattention, a.qkv, a.attention,
                      first_floats(a.log_sum_exp, t * heads_), g.qkv);
  prefix_.take_gradient(context, slot.batch, g);
  rotate(context, slot.batch, g.qkv, true);
  linear_.column_parallel_backward(context, t, width, g.qkv, parameters_.weight(at_.qkv, width, hidden_), dn,
                                   beside_qkv(slot.batch));
}

void AttentionLayer::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens(), width = q_ + 2 * kv_;
  const bool accumulate = !target.overwrite;
  if (target.wants(at_.o, at_.o + hidden_ * q_))
    linear_.row_parallel_weight(context, t, q_, g.o, a.attention, target.matrix(at_.o, hidden_, q_),
                                target.bias(at_.o_bias, hidden_), accumulate, beside_o(slot.batch));
  const View rows = linear_.all_rows(a.input_norm, t);  // wanted or not: they are on their way
  if (target.wants(at_.qkv, at_.qkv + width * hidden_))
    linear_.column_parallel_weight(context, t, width, g.qkv, rows, target.matrix(at_.qkv, width, hidden_),
                                   target.bias(at_.qkv_bias, width), accumulate, beside_qkv(slot.batch));
  prefix_.backward_weight(context, g, target);
  target.say_ready(at_.qkv, at_.qkv + width * hidden_);
  target.say_ready(at_.o, at_.o + hidden_ * q_);
  if (at_.qkv_bias < 0) return;
  target.say_ready(at_.qkv_bias, at_.qkv_bias + width);
  target.say_ready(at_.o_bias, at_.o_bias + hidden_);
}

}  // namespace longhaul
