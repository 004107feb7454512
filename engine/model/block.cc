#include "engine/model/block.h"

#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gemm.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/swiglu.h"

namespace longhaul {

View columns_of(View rows, std::int64_t tokens, std::int64_t begin, std::int64_t columns) {
  auto* bytes = static_cast<std::byte*>(rows.data()) + begin * dtype_bytes(rows.dtype());
  return View(bytes, rows.dtype(), Shape{(tokens - 1) * rows.shape()[-1] + columns});
}

Block::Block(const ParameterStore& parameters, const RopeTable& rope, Activations& activations, TensorParallel& tensor,
             int layer, int index)
    : parameters_(parameters), rope_(rope), activations_(activations), tensor_(tensor), index_(index) {
  const ModelShape& s = parameters.shape();
  const int tp = tensor.size();
  hidden_ = s.hidden_size, ffn_ = s.intermediate_size / tp;
  q_ = s.q_size() / tp, kv_ = s.kv_size() / tp;
  heads_ = s.num_attention_heads / tp, kv_heads_ = s.num_key_value_heads / tp, head_dim_ = s.head_dim;
  eps_ = static_cast<float>(s.rms_norm_eps);
  const auto begin = [&](const char* name) {
    return parameters.layout().find("model.layers." + std::to_string(layer) + "." + name + ".weight").begin;
  };
  input_norm_ = begin("input_layernorm"), qkv_ = begin("self_attn.q_proj"), o_ = begin("self_attn.o_proj");
  post_norm_ = begin("post_attention_layernorm"), gate_up_ = begin("mlp.gate_proj"), down_ = begin("mlp.down_proj");
}

void Block::rotate(const ComputeContext& context, const MicroBatch& batch, View qkv, bool inverse) const {
  const std::int64_t t = batch.tokens(), width = q_ + 2 * kv_;
  rope_apply(context, {t, heads_, head_dim_, width}, rope_, batch.positions, batch.length, columns_of(qkv, t, 0, q_),
             inverse);
  rope_apply(context, {t, kv_heads_, head_dim_, width}, rope_, batch.positions, batch.length,
             columns_of(qkv, t, q_, kv_), inverse);
}

namespace {

AttentionShape attention_shape(const MicroBatch& batch, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t head_dim) {
  AttentionShape shape;
  shape.batch = batch.sequences, shape.seq = batch.length;
  shape.heads = heads, shape.kv_heads = kv_heads, shape.head_dim = head_dim;
  shape.q_stride = shape.kv_stride = (heads + 2 * kv_heads) * head_dim;
  return shape;
}

}  // namespace

View Block::all_rows(View rows, std::int64_t tokens) {
  if (!tensor_.sequence()) return rows;
  const View all = activations_.workspace().full;
  tensor_.gather_rows(rows, tokens, hidden_, all);
  return all;
}

void Block::row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x, ConstView weight,
                         View y) {
  if (!tensor_.splits()) return linear_forward(context, {tokens, in, hidden_}, x, weight, y);
  const View partial = first_rows(activations_.workspace().partial, tokens);
  linear_forward(context, {tokens, in, hidden_}, x, weight, partial);
  tensor_.sum_rows(context, partial, tokens, hidden_, y);
}

void Block::column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View dy,
                                     ConstView weight, View dx) {
  if (!tensor_.splits()) return linear_backward_input(context, {tokens, hidden_, out}, dy, weight, dx);
  const View partial = first_rows(activations_.workspace().partial, tokens);
  linear_backward_input(context, {tokens, hidden_, out}, dy, weight, partial);
  tensor_.sum_rows(context, partial, tokens, hidden_, dx);
}

void Block::forward(const ComputeContext& context, int slot_index, const BlockOutput& output) {
  ActivationSlot& slot = activations_.slot(slot_index);
  BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const MicroBatch& batch = slot.batch;
  const std::int64_t t = batch.tokens(), r = tensor_.rows(t), width = q_ + 2 * kv_;
  const View branch = first_rows(activations_.workspace().branch, r);

  linear_forward(context, {t, hidden_, width}, all_rows(a.input_norm, t), parameters_.weight(qkv_, width, hidden_),
                 a.qkv);
  rotate(context, batch, a.qkv, false);
  attention_forward(context, attention_shape(batch, heads_, kv_heads_, head_dim_), columns_of(a.qkv, t, 0, q_),
                    columns_of(a.qkv, t, q_, kv_), columns_of(a.qkv, t, q_ + kv_, kv_), a.attention,
                    first_floats(a.log_sum_exp, t * heads_), batch.first_key);
  row_parallel(context, t, q_, a.attention, parameters_.weight(o_, hidden_, q_), branch);
  add_rmsnorm_forward(context, {r, hidden_, eps_}, first_rows(a.x, r), branch, parameters_.vector(post_norm_, hidden_),
                      first_rows(a.middle, r), first_rows(a.post_norm, r), first_floats(a.post_inv_rms, r));

  linear_forward(context, {t, hidden_, 2 * ffn_}, all_rows(a.post_norm, t),
                 parameters_.weight(gate_up_, 2 * ffn_, hidden_), a.gate_up);
  swiglu_forward(context, {t, ffn_, 2 * ffn_}, columns_of(a.gate_up, t, 0, ffn_), columns_of(a.gate_up, t, ffn_, ffn_),
                 first_rows(a.activated, t));
  row_parallel(context, t, ffn_, a.activated, parameters_.weight(down_, hidden_, ffn_), branch);
  if (output.norm_begin < 0) return add(context, first_rows(a.middle, r), branch, first_rows(output.x, r));
  add_rmsnorm_forward(context, {r, hidden_, eps_}, first_rows(a.middle, r), branch,
                      parameters_.vector(output.norm_begin, hidden_), first_rows(output.x, r),
                      first_rows(output.normed, r), first_floats(output.inv_rms, r));
}

void Block::keep_all_rows(const ComputeContext& context, View rows, std::int64_t tokens, View out) {
  if (tensor_.sequence())
    tensor_.gather_rows(rows, tokens, hidden_, out);
  else
    cast(context, first_rows(rows, tokens), first_rows(out, tokens));
}

void Block::backward_input(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  ActivationSlot& slot = activations_.slot(slot_index);
  const BlockActivations& a = slot.blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const MicroBatch& batch = slot.batch;
  const std::int64_t t = batch.tokens(), r = tensor_.rows(t), width = q_ + 2 * kv_;
  Workspace& w = activations_.workspace();
  const View dx = first_rows(w.dx, r), branch = first_rows(w.branch, r), activated = first_rows(w.activated, t);
  if (target.overwrite) {
    target.clear(input_norm_, input_norm_ + hidden_);
    target.clear(post_norm_, post_norm_ + hidden_);
  }

  keep_all_rows(context, w.dx, t, g.down);
  linear_backward_input(context, {t, ffn_, hidden_}, g.down, parameters_.weight(down_, hidden_, ffn_), activated);
  swiglu_backward(context, {t, ffn_, 2 * ffn_}, activated, columns_of(a.gate_up, t, 0, ffn_),
                  columns_of(a.gate_up, t, ffn_, ffn_), columns_of(g.gate_up, t, 0, ffn_),
                  columns_of(g.gate_up, t, ffn_, ffn_));
  column_parallel_backward(context, t, 2 * ffn_, g.gate_up, parameters_.weight(gate_up_, 2 * ffn_, hidden_), branch);
  rmsnorm_backward(context, {r, hidden_, eps_}, branch, first_rows(a.middle, r),
                   parameters_.vector(post_norm_, hidden_), first_floats(a.post_inv_rms, r), dx,
                   target.vector(post_norm_, hidden_), true);

  keep_all_rows(context, w.dx, t, g.o);
  linear_backward_input(context, {t, q_, hidden_}, g.o, parameters_.weight(o_, hidden_, q_), w.attention);
  attention_backward(context, attention_shape(batch, heads_, kv_heads_, head_dim_), first_rows(w.attention, t),
                     columns_of(a.qkv, t, 0, q_), columns_of(a.qkv, t, q_, kv_), columns_of(a.qkv, t, q_ + kv_, kv_),
                     first_rows(a.attention, t), first_floats(a.log_sum_exp, t * heads_), columns_of(g.qkv, t, 0, q_),
                     columns_of(g.qkv, t, q_, kv_), columns_of(g.qkv, t, q_ + kv_, kv_), batch.first_key);
  rotate(context, batch, g.qkv, true);
  column_parallel_backward(context, t, width, g.qkv, parameters_.weight(qkv_, width, hidden_), branch);
  rmsnorm_backward(context, {r, hidden_, eps_}, branch, first_rows(a.x, r), parameters_.vector(input_norm_, hidden_),
                   first_floats(a.input_inv_rms, r), dx, target.vector(input_norm_, hidden_), true);
}

void Block::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const BlockActivations& a = activations_.slot(slot_index).blocks[static_cast<std::size_t>(index_)];
  const BlockGradients& g = activations_.gradients(slot_index, index_);
  const std::int64_t t = activations_.slot(slot_index).batch.tokens(), width = q_ + 2 * kv_;
  const bool accumulate = !target.overwrite;
  linear_backward_weight(context, {t, ffn_, hidden_}, g.down, a.activated, target.matrix(down_, hidden_, ffn_), {},
                         accumulate);
  linear_backward_weight(context, {t, hidden_, 2 * ffn_}, g.gate_up, all_rows(a.post_norm, t),
                         target.matrix(gate_up_, 2 * ffn_, hidden_), {}, accumulate);
  linear_backward_weight(context, {t, q_, hidden_}, g.o, a.attention, target.matrix(o_, hidden_, q_), {}, accumulate);
  linear_backward_weight(context, {t, hidden_, width}, g.qkv, all_rows(a.input_norm, t),
                         target.matrix(qkv_, width, hidden_), {}, accumulate);
  target.say_ready(begin(), end());
}

}  // namespace longhaul
