#include "autotune/inference/serving_memory.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

double kv_heads_per_gpu(const ModelShape& shape, int tp) {
  return std::max(1.0, static_cast<double>(shape.num_key_value_heads) / tp);
}

double serving_weight_bytes(const ModelShape& shape, WeightFormat format, int tp) {
  const auto h = static_cast<double>(shape.hidden_size), q = static_cast<double>(shape.q_size()) / tp;
  const double kv = kv_heads_per_gpu(shape, tp) * static_cast<double>(shape.head_dim);
  const double plain = format == WeightFormat::f32 ? 4 : 2;
  double layer = matrix_bytes(format, q + 2 * kv, h) + matrix_bytes(format, h, q);
  const auto feed_forward = [&](double width) {
    const double inner = width / tp;
    return matrix_bytes(format, shape.is_gpt2() ? inner : 2 * inner, h) + matrix_bytes(format, h, inner);
  };
  if (shape.is_moe()) {
    const auto experts = static_cast<double>(shape.num_local_experts);
    layer += experts * feed_forward(static_cast<double>(shape.moe_intermediate_size)) + experts * h * plain;
    if (shape.n_shared_experts > 0) layer += feed_forward(static_cast<double>(shape.shared_size()));
  } else {
    layer += feed_forward(static_cast<double>(shape.intermediate_size));
  }
  const double norms = (shape.is_gpt2() ? 2 : 1) * h * plain;
  const auto layers = static_cast<double>(shape.num_hidden_layers);
  const double embedding = static_cast<double>(shape.vocab_size) / tp * h * plain;
  const double positions = shape.is_gpt2() ? static_cast<double>(shape.max_position_embeddings) * h * plain : 0;
  return layers * (layer + 2 * norms) + norms + embedding * (shape.tie_word_embeddings ? 1 : 2) + positions;
}

ServingMemory serving_memory(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                             const GpuType& gpu) {
  ServingMemory m;
  m.weights = serving_weight_bytes(shape, layout.weights, layout.tp);
  const double width = layout.weights == WeightFormat::f32 ? 4 : 2,
               tokens = static_cast<double>(layout.chunk) + layout.slots;
  const double kv = kv_heads_per_gpu(shape, layout.tp) * static_cast<double>(shape.head_dim);
  const double inner =
      static_cast<double>(shape.is_moe() ? shape.num_experts_per_tok * shape.moe_intermediate_size + shape.shared_size()
                                         : shape.intermediate_size) /
      layout.tp;
  // Input, residual, norm and output of a half layer; queries, keys and values; gate, up and their product. Experts
  // have a copy of every row that goes to them.
  const double copies = shape.is_moe() ? static_cast<double>(shape.num_experts_per_tok) : 0;
  m.activations = tokens * width *
                  (static_cast<double>(shape.hidden_size) * (4 + 2 * copies) +
                   static_cast<double>(shape.q_size()) / layout.tp + 2 * kv + inner * (shape.is_gpt2() ? 2 : 3));
  m.logits = static_cast<double>(layout.slots) * static_cast<double>(shape.vocab_size) * 4;
  m.base = task.memory_base, m.reserve = gpu.memory * task.memory_reserve;
  m.cache_token = static_cast<double>(shape.num_hidden_layers) *
                  cache_bytes(layout.cache, kv_heads_per_gpu(shape, layout.tp), static_cast<double>(shape.head_dim));
  m.room = gpu.memory - m.held();
  m.blocks = std::max<std::int64_t>(0, static_cast<std::int64_t>(m.room / (m.cache_token * layout.block)));
  return m;
}

int slots_that_fit(const ModelShape& shape, const ServingTask& task, ServingLayout layout, const GpuType& gpu) {
  const std::int64_t each = (task.context() + layout.block - 1) / layout.block;
  const auto fits = [&](int slots) {
    layout.slots = slots;
    return serving_memory(shape, task, layout, gpu).blocks >= slots * each;
  };
  int low = 0, high = task.slots_max;  // low fits
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace longhaul
