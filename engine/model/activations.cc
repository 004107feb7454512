#include "engine/model/activations.h"

namespace longhaul {

namespace {

// Hands out the same memory twice: once to count it, once for real.
struct Taker {
  Arena* arena;
  std::int64_t bytes = 0;
  View operator()(DType dtype, Shape shape) {
    bytes += Arena::bytes_for(dtype, shape);
    return arena ? arena->allocate(dtype, shape) : View();
  }
};

BlockActivations take_block(Taker& take, const ModelShape& s, DType dtype, std::int64_t t) {
  BlockActivations a;
  a.x = take(dtype, {t, s.hidden_size});
  a.input_norm = take(dtype, {t, s.hidden_size});
  a.qkv = take(dtype, {t, s.q_size() + 2 * s.kv_size()});
  a.attention = take(dtype, {t, s.q_size()});
  a.middle = take(dtype, {t, s.hidden_size});
  a.post_norm = take(dtype, {t, s.hidden_size});
  a.gate_up = take(dtype, {t, 2 * s.intermediate_size});
  a.activated = take(dtype, {t, s.intermediate_size});
  a.log_sum_exp = take(DType::f32, {t * s.num_attention_heads});
  a.input_inv_rms = take(DType::f32, {t});
  a.post_inv_rms = take(DType::f32, {t});
  return a;
}

BlockGradients take_gradients(Taker& take, const ModelShape& s, DType dtype, std::int64_t t) {
  BlockGradients g;
  g.qkv = take(dtype, {t, s.q_size() + 2 * s.kv_size()});
  g.o = take(dtype, {t, s.hidden_size});
  g.gate_up = take(dtype, {t, 2 * s.intermediate_size});
  g.down = take(dtype, {t, s.hidden_size});
  return g;
}

void take_all(Taker& take, const ModelShape& s, DType dtype, std::int64_t t, bool split, bool training,
              std::vector<ActivationSlot>& slots, Workspace& workspace) {
  const auto layers = static_cast<std::size_t>(s.num_hidden_layers);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ActivationSlot& slot = slots[i];
    slot.blocks.resize(layers);
    // Without a backward every block works in the same memory; only its input and output stand apart.
    for (std::size_t l = 0; l < layers; ++l)
      slot.blocks[l] = training || l == 0 ? take_block(take, s, dtype, t) : slot.blocks[0];
    slot.x = take(dtype, {t, s.hidden_size});
    slot.final_norm = take(dtype, {t, s.hidden_size});
    slot.final_inv_rms = take(DType::f32, {t});
    if (training && (split || i == 0)) {
      slot.gradients.resize(split ? layers : 1);
      for (BlockGradients& g : slot.gradients) g = take_gradients(take, s, dtype, t);
    }
    if (training && split) slot.embedding_gradient = take(dtype, {t, s.hidden_size});
  }
  workspace.branch = take(dtype, {t, s.hidden_size});
  if (training) {
    workspace.dx = take(dtype, {t, s.hidden_size});
    workspace.activated = take(dtype, {t, s.intermediate_size});
    workspace.attention = take(dtype, {t, s.q_size()});
  }
}

std::int64_t count_bytes(const ModelShape& s, DType dtype, int slots, std::int64_t t, bool split, bool training) {
  Taker count{nullptr};
  std::vector<ActivationSlot> unused(static_cast<std::size_t>(slots));
  Workspace workspace;
  take_all(count, s, dtype, t, split, training, unused, workspace);
  return count.bytes;
}

}  // namespace

Activations::Activations(const ModelShape& shape, DType dtype, int slots, std::int64_t tokens_max, bool split_backward,
                         bool training, MemoryAccount* account)
    : tokens_max_(tokens_max),
      split_backward_(split_backward),
      training_(training),
      arena_(count_bytes(shape, dtype, slots, tokens_max, split_backward, training), account),
      slots_(static_cast<std::size_t>(slots)) {
  Taker take{&arena_};
  take_all(take, shape, dtype, tokens_max, split_backward, training, slots_, workspace_);
}

BlockGradients& Activations::gradients(int slot_index, int block) {
  if (split_backward_) return slot(slot_index).gradients[static_cast<std::size_t>(block)];
  return slots_[0].gradients[0];
}

}  // namespace longhaul
