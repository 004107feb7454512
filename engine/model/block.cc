#include "engine/model/block.h"

#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

Block::Block(const ParameterStore& parameters, const RopeTable& rope, Activations& activations, TensorParallel& tensor,
             const ModelDropout& dropout, ContextAttention& attention, MoeState* experts,
             LowPrecisionState* low_precision, int layer, int index)
    : activations_(activations),
      tensor_(tensor),
      dropout_(dropout),
      attention_(parameters, rope, activations, tensor, attention, low_precision, dropout.of_adapter, layer, index),
      feed_forward_(
          make_feed_forward(parameters, activations, tensor, experts, low_precision, dropout.of_adapter, layer, index)),
      layer_(layer),
      index_(index),
      hidden_(parameters.shape().hidden_size) {
  const std::string prefix = layer_prefix(parameters.shape(), layer);
  const bool gpt2 = parameters.shape().is_gpt2();
  input_norm_ = Norm(parameters, prefix + (gpt2 ? "ln_1" : "input_layernorm"));
  post_norm_ = Norm(parameters, prefix + (gpt2 ? "ln_2" : "post_attention_layernorm"));
  const BottleneckShape& bottleneck = parameters.shape().bottleneck;
  if (bottleneck.after_attention) attention_bottleneck_ = Bottleneck(parameters, layer, LayerHalf::attention);
  if (bottleneck.after_feed_forward) feed_forward_bottleneck_ = Bottleneck(parameters, layer, LayerHalf::feed_forward);
}

void Block::forward(const ComputeContext& context, int slot_index, const BlockOutput& output) {
  const TraceSpan span(context.trace(), "block forward");
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  const View branch = first_rows(activations_.workspace().branch, r);

  first_half(context, slot_index);
  feed_forward_->forward(context, slot_index, branch);
  ConstView bias = feed_forward_->output_bias();
  finish_branch(context, slot.batch, feed_forward_half(a), branch, bias);
  if (output.norm)
    return output.norm->add_forward(context, r, first_rows(a.middle, r), branch, bias, first_rows(output.x, r),
                                    first_rows(output.normed, r), output.inv_rms);
  add(context, first_rows(a.middle, r), branch, first_rows(output.x, r));
  if (!bias.empty()) add_to_rows(context, bias, r, first_rows(output.x, r));
}

// x + attention(norm(x)) and its norm.
void Block::first_half(const ComputeContext& context, int slot_index) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  const View branch = first_rows(activations_.workspace().branch, r);
  attention_.forward(context, slot_index, branch);
  ConstView bias = attention_.output_bias();
  finish_branch(context, slot.batch, attention_half(a), branch, bias);
  post_norm_.add_forward(context, r, first_rows(a.x, r), branch, bias, first_rows(a.middle, r),
                         first_rows(a.post_norm, r), a.post_inv_rms);
}

// What was not kept, in the order of the forward pass and with its bits. Collective where matrices are split.
void Block::restore(const ComputeContext& context, int slot_index) {
  const Recompute again = activations_.recompute(index_);
  if (!again.any()) return;
  const TraceSpan span(context.trace(), "block again");
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  if (again.norms) input_norm_.forward(context, r, first_rows(a.x, r), first_rows(a.input_norm, r), a.input_inv_rms);
  if (again.block) {
    first_half(context, slot_index);
  } else {
    if (again.attention) attention_.restore(context, slot_index);
    if (again.norms)
      post_norm_.forward(context, r, first_rows(a.middle, r), first_rows(a.post_norm, r), a.post_inv_rms);
  }
  if (again.activation) feed_forward_->restore(context, slot_index, again.feed_forward);
}

// A half's weights come between its input's gradient and what needs that: sums of it over ranks travel beside them.
void Block::backward(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  restore(context, slot_index);
  const TraceSpan span(context.trace(), "block backward");
  const bool weights = !activations_.split_backward();
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  Workspace& w = activations_.workspace();
  const View dx = first_rows(w.dx, r), branch = first_rows(w.branch, r);
  feed_forward_->backward_input(context, slot_index, reaches(context, slot.batch, feed_forward_half(a), w.dx, target),
                                branch);
  if (weights) feed_forward_->backward_weight(context, slot_index, target);
  feed_forward_->finish_input(context, slot_index);
  // Norms are cleared here and not before: the memory of an adapter's gradient has been the experts' meanwhile.
  if (target.overwrite) post_norm_.clear(context, target);
  post_norm_.backward(context, r, branch, first_rows(a.middle, r), a.post_inv_rms, dx, target, true);
  attention_.backward_input(context, slot_index, reaches(context, slot.batch, attention_half(a), w.dx, target), branch);
  if (weights) attention_.backward_weight(context, slot_index, target);
  attention_.finish_input(context);
  if (target.overwrite) input_norm_.clear(context, target);
  input_norm_.backward(context, r, branch, first_rows(a.x, r), a.input_inv_rms, dx, target, true);
  post_norm_.say_ready(target);
  input_norm_.say_ready(target);
}

Block::Half Block::attention_half(const BlockActivations& kept) const {
  return {ModelDropout::attention_place(layer_), attention_bottleneck_, kept.attention_bottleneck};
}

Block::Half Block::feed_forward_half(const BlockActivations& kept) const {
  return {ModelDropout::feed_forward_place(layer_), feed_forward_bottleneck_, kept.feed_forward_bottleneck};
}

void Block::finish_branch(const ComputeContext& context, const MicroBatch& batch, const Half& half, View branch,
                          ConstView& bias) {
  const bool drops = dropout_.drops(batch);
  if (!drops && !half.bottleneck.is_there()) return;
  const std::int64_t r = tensor_.rows(batch.tokens());
  if (!bias.empty()) add_to_rows(context, bias, r, branch);
  bias = {};
  if (drops) dropout_.apply(context, batch, tensor_, half.dropout_place, hidden_, branch, branch);
  if (half.bottleneck.is_there()) half.bottleneck.forward(context, r, branch, half.kept);
}

View Block::reaches(const ComputeContext& context, const MicroBatch& batch, const Half& half, View dy,
                    const GradientTarget& target) {
  if (half.bottleneck.is_there()) {
    Workspace& w = activations_.workspace();
    half.bottleneck.backward(context, tensor_.rows(batch.tokens()), half.kept, dy, w.bottleneck, w.before_bottleneck,
                             target);
    dy = w.before_bottleneck;
  }
  if (!dropout_.drops(batch)) return dy;
  dropout_.apply(context, batch, tensor_, half.dropout_place, hidden_, dy, dropout_.masked);
  return dropout_.masked;
}

void Block::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  LH_ASSERT(activations_.split_backward(), "made for joint backward");
  restore(context, slot_index);  // other layers came in between
  const TraceSpan span(context.trace(), "block backward weight");
  feed_forward_->backward_weight(context, slot_index, target);
  attention_.backward_weight(context, slot_index, target);
}

}  // namespace longhaul
