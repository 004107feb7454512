#include "engine/model/experts/moe_layer.h"

#include "engine/ops/experts/moe_dispatch.h"

namespace longhaul {

MoeLayer::MoeLayer(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor, MoeState& state,
                   int layer, int index)
    : activations_(activations),
      tensor_(tensor),
      state_(state),
      index_(index),
      dtype_(parameters.compute_dtype()),
      hidden_(parameters.shape().hidden_size),
      block_again_(activations.recompute(index).block),
      router_(parameters, state, layer, index),
      routed_(parameters, state, activations.recompute(index), layer),
      shared_(parameters, state, activations.recompute(index), layer) {
  for (int i = 0; i < activations.slots(); ++i) slots_.emplace_back(state.account());
}

std::int64_t MoeLayer::bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& s : slots_) bytes += s.routing.host_bytes() + s.gradients.logits.host_bytes();
  return bytes;
}

View MoeLayer::own_of(View rows, std::int64_t tokens) const {
  const std::int64_t m = own_rows(tokens), first = tensor_.sequence() ? 0 : tensor_.rank() * m;
  return rows.rows(first, first + m);
}

View MoeLayer::own_target(View rows, std::int64_t tokens) {
  if (tensor_.sequence() || !tensor_.splits()) return first_rows(rows, own_rows(tokens));
  return state_.scratch.own.take(dtype_, {own_rows(tokens), hidden_});
}

void MoeLayer::done(View own, View rows, std::int64_t tokens) {
  if (tensor_.splits() && !tensor_.sequence()) tensor_.gather_parts(own, tokens, hidden_, rows);
}

std::span<const std::uint8_t> MoeLayer::own_real(const MicroBatch& batch) const {
  if (batch.real.empty()) return {};
  const auto m = static_cast<std::size_t>(own_rows(batch.tokens()));
  return batch.real.subspan(static_cast<std::size_t>(tensor_.rank()) * m, m);
}

View MoeLayer::input(int slot_index) const {
  const ActivationSlot& slot = activations_.slot(slot_index);
  return own_of(slot.blocks[static_cast<std::size_t>(index_)].post_norm, slot.batch.tokens());
}

void MoeLayer::through_experts(const ComputeContext& context, Slot& s, View x, View shared_y) {
  const RoutedRows& rows = s.routing.rows;
  routed_.start(context, rows, s.kept, x);
  if (shared_.any()) shared_.activate(context, s.kept, x, true);
  if (!shared_y.empty()) shared_.output(context, s.kept, shared_y);
  routed_.finish(context, rows, s.kept);
}

void MoeLayer::forward(const ComputeContext& context, int slot_index, View y) {
  const MicroBatch& batch = activations_.slot(slot_index).batch;
  Slot& s = at(slot_index);
  const View x = input(slot_index);
  router_.forward(context, s.routing, slot_index, x, own_real(batch));
  const View own = own_target(y, batch.tokens());
  through_experts(context, s, x, shared_.any() ? own : View());
  moe_combine(context, s.routing.rows.plan(), hidden_, routed_.outputs(s.routing.rows, s.kept),
              s.routing.weights.span(), own, shared_.any());
  done(own, y, batch.tokens());
}

void MoeLayer::restore(const ComputeContext& context, int slot_index, bool inputs) {
  Slot& s = at(slot_index);
  const View x = input(slot_index);
  if (block_again_) return through_experts(context, s, x, {});
  routed_.activate_again(context, s.routing.rows, s.kept, inputs);
  if (shared_.any()) shared_.activate(context, s.kept, x, inputs);
}

void MoeLayer::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  Slot& s = at(slot_index);
  MoeGradients& g = gradients(s);
  const View dout = own_of(dy, activations_.slot(slot_index).batch.tokens());
  dn_ = dn;
  routed_.start_backward(context, s.routing.rows, s.kept, g, s.routing.weights.span(), dout);
  router_.backward(context, s.routing, slot_index, g.logits.take(s.routing.logits.size()));
  if (shared_.any()) shared_.backward(context, s.kept, g, dout);
  routed_.backward(context, s.routing.rows, s.kept, g);
}

void MoeLayer::finish_input(const ComputeContext& context, int slot_index) {
  Slot& s = at(slot_index);
  const std::int64_t t = activations_.slot(slot_index).batch.tokens();
  const View dx = own_target(dn_, t);
  routed_.finish_backward(context, s.routing.rows, s.kept, dx);
  router_.backward_input(context, gradients(s).logits.span(), dx);
  if (shared_.any()) shared_.backward_input(context, gradients(s), dx);
  done(dx, dn_, t);
}

void MoeLayer::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  Slot& s = at(slot_index);
  MoeGradients& g = gradients(s);
  const View x = input(slot_index);
  routed_.backward_weight(context, s.routing.rows, s.kept, g, target);
  router_.backward_weight(context, g.logits.span(), x, target);
  if (shared_.any()) shared_.backward_weight(context, s.kept, g, x, target);
  const auto [begin, end] = partial_gradient();
  target.say_ready(begin, end);
}

}  // namespace longhaul
