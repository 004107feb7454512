#include "engine/model/layers/gelu_mlp.h"

#include "engine/ops/pointwise/gelu.h"

namespace longhaul {

GeluMlp::GeluMlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
                 LowPrecisionState* low_precision, int layer, int index)
    : parameters_(parameters),
      activations_(activations),
      linear_(tensor, activations, parameters.shape().hidden_size,
              LowPrecisionLinear(low_precision, layer, LayerMatrix::mlp_input),
              LowPrecisionLinear(low_precision, layer, LayerMatrix::mlp_output)),
      index_(index),
      hidden_(parameters.shape().hidden_size),
      ffn_(parameters.shape().intermediate_size / tensor.size()) {
  const std::string prefix = layer_prefix(parameters.shape(), layer) + "mlp.";
  const auto begin = [&](const char* name) { return parameters.layout().find(prefix + name).begin; };
  fc_ = begin("c_fc.weight"), fc_bias_ = begin("c_fc.bias");
  projection_ = begin("c_proj.weight"), projection_bias_ = begin("c_proj.bias");
}

void GeluMlp::forward(const ComputeContext& context, int slot_index, View y) {
  restore(context, slot_index, true);
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_.row_parallel(context, slot.batch.tokens(), ffn_, slot.blocks[static_cast<std::size_t>(index_)].activated,
                       parameters_.weight(projection_, hidden_, ffn_), y);
}

void GeluMlp::restore(const ComputeContext& context, int slot_index, bool inputs) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t t = slot.batch.tokens();
  const ConstView weight = parameters_.weight(fc_, ffn_, hidden_), bias = parameters_.vector(fc_bias_, ffn_);
  // In one where the activation is never recomputed by itself: from what was stored it has other last bits than from
  // the sums that a device takes it of.
  const Recompute again = activations_.recompute(index_);
  if (inputs && (!again.activation || again.feed_forward))
    return linear_.column_parallel_gelu(context, t, ffn_, a.post_norm, weight, bias, a.gate_up, a.activated);
  if (inputs) linear_.column_parallel(context, t, ffn_, a.post_norm, weight, a.gate_up, bias);
  gelu_forward(context, first_rows(a.gate_up, t), first_rows(a.activated, t));
}

void GeluMlp::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  linear_.row_parallel_backward(context, t, ffn_, dy, parameters_.weight(projection_, hidden_, ffn_), g.down,
                                first_rows(g.gate_up, t), first_rows(a.gate_up, t));
  if (!activations_.split_backward()) linear_.expect_all_rows(context, a.post_norm, t);
  linear_.column_parallel_backward(context, t, ffn_, g.gate_up, parameters_.weight(fc_, ffn_, hidden_), dn);
}

void GeluMlp::finish_input(const ComputeContext& context, int) {
  linear_.finish(context);
}

void GeluMlp::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  const bool accumulate = !target.overwrite;
  linear_.row_parallel_weight(context, t, ffn_, g.down, a.activated, target.matrix(projection_, hidden_, ffn_),
                              target.bias(projection_bias_, hidden_), accumulate);
  linear_.column_parallel_weight(context, t, ffn_, g.gate_up, linear_.all_rows(a.post_norm, t),
                                 target.matrix(fc_, ffn_, hidden_), target.bias(fc_bias_, ffn_), accumulate);
  target.say_ready(fc_, fc_ + ffn_ * hidden_);
  target.say_ready(fc_bias_, fc_bias_ + ffn_);
  target.say_ready(projection_, projection_ + hidden_ * ffn_);
  target.say_ready(projection_bias_, projection_bias_ + hidden_);
}

}  // namespace longhaul
