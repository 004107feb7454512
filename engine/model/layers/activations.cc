#include "engine/model/layers/activations.h"

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

BottleneckActivations take_bottleneck(Taker& take, const Activations::Sizes& sizes) {
  BottleneckActivations a;
  a.input = take(sizes.dtype, {sizes.rows_max, sizes.shape.hidden_size});
  a.sum = take(sizes.dtype, {sizes.rows_max, sizes.shape.bottleneck.size});
  a.activated = take(sizes.dtype, {sizes.rows_max, sizes.shape.bottleneck.size});
  return a;
}

// Everything of a block; what `shared` says lies in `from`.
BlockActivations take_block(Taker& take, const Activations::Sizes& sizes, const Recompute& shared = {},
                            const BlockActivations& from = {}) {
  const ModelShape& s = sizes.shape;
  const std::int64_t t = sizes.tokens_max, r = sizes.rows_max;
  const auto own = [&](bool is_shared, const View& other, DType dtype, const Shape& shape) {
    return is_shared ? other : take(dtype, shape);
  };
  BlockActivations a;
  a.x = take(sizes.dtype, {r, s.hidden_size});
  a.input_norm = own(shared.norms, from.input_norm, sizes.dtype, {r, s.hidden_size});
  a.qkv = own(shared.attention, from.qkv, sizes.dtype, {t, s.q_size() + 2 * s.kv_size()});
  a.attention = own(shared.attention, from.attention, sizes.dtype, {t, s.q_size()});
  a.middle = own(shared.block, from.middle, sizes.dtype, {r, s.hidden_size});
  a.post_norm = own(shared.norms, from.post_norm, sizes.dtype, {r, s.hidden_size});
  a.gate_up = own(shared.feed_forward, from.gate_up, sizes.dtype, {t, s.mlp_width()});
  a.activated = own(shared.activation, from.activated, sizes.dtype, {t, s.intermediate_size});
  a.log_sum_exp = own(shared.attention, from.log_sum_exp, DType::f32, {t * s.num_attention_heads});
  a.input_inv_rms = take(DType::f32, {r * s.norm_statistics()});
  a.post_inv_rms = take(DType::f32, {r * s.norm_statistics()});
  if (s.bottleneck.after_attention)
    a.attention_bottleneck = shared.block ? from.attention_bottleneck : take_bottleneck(take, sizes);
  // Kept always: what the feed-forward gives is not computed again.
  if (s.bottleneck.after_feed_forward) a.feed_forward_bottleneck = take_bottleneck(take, sizes);
  return a;
}

// Memory of what is not kept, once.
BlockActivations take_shared(Taker& take, const Activations::Sizes& sizes) {
  const ModelShape& s = sizes.shape;
  const Recompute& recompute = sizes.recompute;
  const std::int64_t t = sizes.tokens_max, r = sizes.rows_max;
  BlockActivations a;
  if (recompute.norms) {
    a.input_norm = take(sizes.dtype, {r, s.hidden_size});
    a.post_norm = take(sizes.dtype, {r, s.hidden_size});
  }
  if (recompute.attention) {
    a.qkv = take(sizes.dtype, {t, s.q_size() + 2 * s.kv_size()});
    a.attention = take(sizes.dtype, {t, s.q_size()});
    a.log_sum_exp = take(DType::f32, {t * s.num_attention_heads});
  }
  if (recompute.block) a.middle = take(sizes.dtype, {r, s.hidden_size});
  if (recompute.feed_forward) a.gate_up = take(sizes.dtype, {t, s.mlp_width()});
  if (recompute.activation) a.activated = take(sizes.dtype, {t, s.intermediate_size});
  if (recompute.block && s.bottleneck.after_attention) a.attention_bottleneck = take_bottleneck(take, sizes);
  return a;
}

BlockGradients take_gradients(Taker& take, const Activations::Sizes& sizes) {
  const ModelShape& s = sizes.shape;
  const std::int64_t t = sizes.tokens_max;
  BlockGradients g;
  g.qkv = take(sizes.dtype, {t, s.q_size() + 2 * s.kv_size()});
  g.o = take(sizes.dtype, {t, s.hidden_size});
  g.gate_up = take(sizes.dtype, {t, s.mlp_width()});
  g.down = take(sizes.dtype, {t, s.hidden_size});
  if (s.virtual_keys) g.prefix = take(DType::f32, {2 * s.virtual_tokens, s.kv_size()});
  return g;
}

void take_workspace(Taker& take, const Activations::Sizes& sizes, Workspace& workspace) {
  const ModelShape& s = sizes.shape;
  const std::int64_t t = sizes.tokens_max, r = sizes.rows_max;
  workspace.branch = take(sizes.dtype, {r, s.hidden_size});
  if (sizes.training) {
    workspace.dx = take(sizes.dtype, {r, s.hidden_size});
    workspace.activated = take(sizes.dtype, {t, s.intermediate_size});
    workspace.attention = take(sizes.dtype, {t, s.q_size()});
    if (s.bottleneck.size > 0) {
      workspace.bottleneck = take(sizes.dtype, {r, s.bottleneck.size});
      workspace.before_bottleneck = take(sizes.dtype, {r, s.hidden_size});
    }
  }
  if (sizes.splits) {
    workspace.partial = take(DType::f32, {t, s.hidden_size});
    workspace.landing = take(DType::f32, {t - r, s.hidden_size});
    workspace.full = take(sizes.dtype, {t, s.hidden_size});
  }
}

void take_all(Taker& take, const Activations::Sizes& sizes, std::vector<ActivationSlot>& slots, Workspace& workspace) {
  const auto layers = static_cast<std::size_t>(sizes.shape.num_hidden_layers);
  const std::int64_t h = sizes.shape.hidden_size, r = sizes.rows_max;
  const bool split = sizes.split_backward;
  BlockActivations shared;  // by all layers that compute it again
  if (sizes.training && sizes.recompute.any()) shared = take_shared(take, sizes);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ActivationSlot& slot = slots[i];
    slot.blocks.resize(layers);
    // Without a backward every block works in the same memory; only its input and output stand apart.
    for (std::size_t l = 0; l < layers; ++l) {
      if (!sizes.training && l > 0)
        slot.blocks[l] = slot.blocks[0];
      else
        slot.blocks[l] = take_block(
            take, sizes, sizes.training ? sizes.recompute.of_layer(static_cast<std::int64_t>(l)) : Recompute(), shared);
    }
    slot.x = take(sizes.dtype, {r, h});
    slot.final_norm = take(sizes.dtype, {r, h});
    slot.final_inv_rms = take(DType::f32, {r * sizes.shape.norm_statistics()});
    if (sizes.training && (split || i == 0)) {
      slot.gradients.resize(split ? layers : 1);
      for (BlockGradients& g : slot.gradients) g = take_gradients(take, sizes);
    }
    if (sizes.training && split) slot.embedding_gradient = take(sizes.dtype, {r, h});
  }
  take_workspace(take, sizes, workspace);
}

std::int64_t count_bytes(const Activations::Sizes& sizes) {
  Taker count{nullptr};
  std::vector<ActivationSlot> unused(static_cast<std::size_t>(sizes.slots));
  Workspace workspace;
  take_all(count, sizes, unused, workspace);
  return count.bytes;
}

}  // namespace

Activations::Activations(const Sizes& sizes, MemoryAccount* account)
    : sizes_(sizes), arena_(count_bytes(sizes), account), slots_(static_cast<std::size_t>(sizes.slots)) {
  Taker take{&arena_};
  take_all(take, sizes_, slots_, workspace_);
}

std::int64_t Activations::bytes_for(const Sizes& sizes) {
  return count_bytes(sizes);
}

BlockGradients& Activations::gradients(int slot_index, int block) {
  if (sizes_.split_backward) return slot(slot_index).gradients[static_cast<std::size_t>(block)];
  return slots_[0].gradients[0];
}

}  // namespace longhaul
