#include "engine/model/layers/mlp.h"

#include "engine/ops/pointwise/gelu.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

Mlp::Mlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
         LowPrecisionState* low_precision, AdapterDropout* dropout, int layer, int index)
    : parameters_(parameters),
      activations_(activations),
      linear_(tensor, activations, parameters.shape().hidden_size,
              LowPrecisionLinear(low_precision, layer, LayerMatrix::mlp_input),
              LowPrecisionLinear(low_precision, layer, LayerMatrix::mlp_output)),
      dropout_(dropout),
      index_(index),
      gated_(!parameters.shape().is_gpt2()),
      hidden_(parameters.shape().hidden_size),
      ffn_(parameters.shape().intermediate_size / tensor.size()),
      wide_(gated_ ? 2 * ffn_ : ffn_) {
  const std::string prefix = layer_prefix(parameters.shape(), layer) + "mlp.";
  const auto begin = [&](const char* name) { return parameters.layout().find(prefix + name).begin; };
  in_ = begin(gated_ ? "gate_proj.weight" : "c_fc.weight");
  out_ = begin(gated_ ? "down_proj.weight" : "c_proj.weight");
  if (!gated_) in_bias_ = begin("c_fc.bias"), out_bias_ = begin("c_proj.bias");
}

void Mlp::forward(const ComputeContext& context, int slot_index, View y) {
  restore(context, slot_index, true);
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_.row_parallel(context, slot.batch.tokens(), ffn_, slot.blocks[static_cast<std::size_t>(index_)].activated,
                       weight_out(), y, beside_out(slot.batch));
}

void Mlp::restore(const ComputeContext& context, int slot_index, bool inputs) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t t = slot.batch.tokens();
  // GELU in one with the product where it is never recomputed by itself: from what was stored it has other last bits
  // than from the sums that a device takes it of.
  const Recompute again = activations_.recompute(index_);
  if (!gated_ && inputs && (!again.activation || again.feed_forward))
    return linear_.column_parallel_gelu(context, t, ffn_, a.post_norm, weight_in(), bias(in_bias_, ffn_), a.gate_up,
                                        a.activated, beside_in(slot.batch));
  if (inputs)
    linear_.column_parallel(context, t, wide_, a.post_norm, weight_in(), a.gate_up, bias(in_bias_, wide_),
                            beside_in(slot.batch));
  if (gated_)
    swiglu_forward(context, a.gate_up, first_rows(a.activated, t));
  else
    gelu_forward(context, first_rows(a.gate_up, t), first_rows(a.activated, t));
}

void Mlp::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  // GELU's slope is part of the product; a gate's activation needs its own gradient first.
  const View dinner = gated_ ? first_rows(activations_.workspace().activated, t) : first_rows(g.gate_up, t);
  linear_.row_parallel_backward(context, t, ffn_, dy, weight_out(), g.down, dinner,
                                gated_ ? View() : first_rows(a.gate_up, t), beside_out(slot.batch));
  if (!activations_.split_backward()) linear_.expect_all_rows(context, a.post_norm, t);
  if (gated_) swiglu_backward(context, dinner, a.gate_up, g.gate_up);
  linear_.column_parallel_backward(context, t, wide_, g.gate_up, weight_in(), dn, beside_in(slot.batch));
}

void Mlp::finish_input(const ComputeContext& context, int) {
  linear_.finish(context);
}

void Mlp::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  const bool accumulate = !target.overwrite;
  if (target.wants(out_, out_ + hidden_ * ffn_))
    linear_.row_parallel_weight(context, t, ffn_, g.down, a.activated, target.matrix(out_, hidden_, ffn_),
                                target.bias(out_bias_, hidden_), accumulate, beside_out(slot.batch));
  const View rows = linear_.all_rows(a.post_norm, t);  // wanted or not: they are on their way
  if (target.wants(in_, in_ + wide_ * hidden_))
    linear_.column_parallel_weight(context, t, wide_, g.gate_up, rows, target.matrix(in_, wide_, hidden_),
                                   target.bias(in_bias_, wide_), accumulate, beside_in(slot.batch));
  const auto say_ready = [&](std::int64_t begin, std::int64_t elements) {
    if (begin >= 0) target.say_ready(begin, begin + elements);
  };
  say_ready(in_, wide_ * hidden_), say_ready(in_bias_, wide_);
  say_ready(out_, hidden_ * ffn_), say_ready(out_bias_, hidden_);
}

}  // namespace longhaul
