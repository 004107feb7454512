#include "engine/model/layers/gated_mlp.h"

#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

GatedMlp::GatedMlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
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
  gate_up_ = parameters.layout().find(prefix + "gate_proj.weight").begin;
  down_ = parameters.layout().find(prefix + "down_proj.weight").begin;
}

void GatedMlp::forward(const ComputeContext& context, int slot_index, View y) {
  restore(context, slot_index, true);
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_.row_parallel(context, slot.batch.tokens(), ffn_, slot.blocks[static_cast<std::size_t>(index_)].activated,
                       parameters_.weight(down_, hidden_, ffn_), y);
}

void GatedMlp::restore(const ComputeContext& context, int slot_index, bool inputs) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t t = slot.batch.tokens();
  if (inputs)
    linear_.column_parallel(context, t, 2 * ffn_, a.post_norm, parameters_.weight(gate_up_, 2 * ffn_, hidden_),
                            a.gate_up);
  swiglu_forward(context, {t, ffn_, 2 * ffn_}, columns_of(a.gate_up, t, 0, ffn_), columns_of(a.gate_up, t, ffn_, ffn_),
                 first_rows(a.activated, t));
}

void GatedMlp::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  const View activated = first_rows(activations_.workspace().activated, t);
  linear_.row_parallel_backward(context, t, ffn_, dy, parameters_.weight(down_, hidden_, ffn_), g.down, activated);
  if (!activations_.split_backward()) linear_.expect_all_rows(context, a.post_norm, t);
  swiglu_backward(context, {t, ffn_, 2 * ffn_}, activated, columns_of(a.gate_up, t, 0, ffn_),
                  columns_of(a.gate_up, t, ffn_, ffn_), columns_of(g.gate_up, t, 0, ffn_),
                  columns_of(g.gate_up, t, ffn_, ffn_));
  linear_.column_parallel_backward(context, t, 2 * ffn_, g.gate_up, parameters_.weight(gate_up_, 2 * ffn_, hidden_),
                                   dn);
}

void GatedMlp::finish_input(const ComputeContext& context, int) {
  linear_.finish(context);
}

void GatedMlp::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = slot.batch.tokens();
  const bool accumulate = !target.overwrite;
  linear_.row_parallel_weight(context, t, ffn_, g.down, a.activated, target.matrix(down_, hidden_, ffn_), {},
                              accumulate);
  linear_.column_parallel_weight(context, t, 2 * ffn_, g.gate_up, linear_.all_rows(a.post_norm, t),
                                 target.matrix(gate_up_, 2 * ffn_, hidden_), {}, accumulate);
  target.say_ready(gate_up_, gate_up_ + 2 * ffn_ * hidden_);
  target.say_ready(down_, down_ + hidden_ * ffn_);
}

}  // namespace longhaul
