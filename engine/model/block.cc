#include "engine/model/block.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/rmsnorm.h"

namespace longhaul {

Block::Block(const ParameterStore& parameters, const RopeTable& rope, Activations& activations, TensorParallel& tensor,
             MoeState* experts, int layer, int index)
    : parameters_(parameters),
      activations_(activations),
      tensor_(tensor),
      attention_(parameters, rope, activations, tensor, layer, index),
      feed_forward_(make_feed_forward(parameters, activations, tensor, experts, layer, index)),
      index_(index),
      hidden_(parameters.shape().hidden_size),
      eps_(static_cast<float>(parameters.shape().rms_norm_eps)) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  input_norm_ = parameters.layout().find(prefix + "input_layernorm.weight").begin;
  post_norm_ = parameters.layout().find(prefix + "post_attention_layernorm.weight").begin;
}

void Block::forward(const ComputeContext& context, int slot_index, const BlockOutput& output) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  const View branch = first_rows(activations_.workspace().branch, r);

  attention_.forward(context, slot_index, branch);
  add_rmsnorm_forward(context, {r, hidden_, eps_}, first_rows(a.x, r), branch, parameters_.vector(post_norm_, hidden_),
                      first_rows(a.middle, r), first_rows(a.post_norm, r), first_floats(a.post_inv_rms, r));
  feed_forward_->forward(context, slot_index, branch);
  if (output.norm_begin < 0) return add(context, first_rows(a.middle, r), branch, first_rows(output.x, r));
  add_rmsnorm_forward(context, {r, hidden_, eps_}, first_rows(a.middle, r), branch,
                      parameters_.vector(output.norm_begin, hidden_), first_rows(output.x, r),
                      first_rows(output.normed, r), first_floats(output.inv_rms, r));
}

void Block::backward_input(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const std::int64_t r = tensor_.rows(slot.batch.tokens());
  Workspace& w = activations_.workspace();
  const View dx = first_rows(w.dx, r), branch = first_rows(w.branch, r);
  if (target.overwrite) {
    target.clear(input_norm_, input_norm_ + hidden_);
    target.clear(post_norm_, post_norm_ + hidden_);
  }
  feed_forward_->backward_input(context, slot_index, w.dx, branch);
  rmsnorm_backward(context, {r, hidden_, eps_}, branch, first_rows(a.middle, r),
                   parameters_.vector(post_norm_, hidden_), first_floats(a.post_inv_rms, r), dx,
                   target.vector(post_norm_, hidden_), true);
  attention_.backward_input(context, slot_index, w.dx, branch);
  rmsnorm_backward(context, {r, hidden_, eps_}, branch, first_rows(a.x, r), parameters_.vector(input_norm_, hidden_),
                   first_floats(a.input_inv_rms, r), dx, target.vector(input_norm_, hidden_), true);
  target.say_ready(post_norm_, post_norm_ + hidden_);
  target.say_ready(input_norm_, input_norm_ + hidden_);
}

void Block::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  feed_forward_->backward_weight(context, slot_index, target);
  attention_.backward_weight(context, slot_index, target);
}

}  // namespace longhaul
