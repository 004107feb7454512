#include "autotune/inference/serving_time.h"

#include <algorithm>
#include <cmath>

#include "autotune/inference/processor_serving.h"
#include "autotune/inference/serving_memory.h"

namespace longhaul {
namespace {

double serving_stream_rate(const ServingPlace& place) {
  return place.cluster.gpu.memory_rate * place.common.memory_share;
}

// A GPU reads on while it multiplies; a core does one after the other (as product_time of training has it).
double beside_each_other(const GpuType& gpu, double arithmetic, double traffic) {
  return gpu.processors > 1 ? std::max(arithmetic, traffic) : arithmetic + traffic;
}

// Rows [m, k] with a matrix [n, k]. Inference splits the inner dimension where there are fewer tiles than processors,
// so that, unlike training's products, small ones are not held up by idle processors.
double serving_product(const ServingPlace& place, WeightFormat format, double m, double n, double k,
                       double matrices = 1, double rate_share = 1) {
  const GpuType& gpu = place.cluster.gpu;
  double rate = gpu.gemm_rate(product_precision(format)) * rate_share;
  if (is_unpacked(format)) rate *= place.serving.unpack_share;
  double waves = std::ceil(m / 128) * std::ceil(n / 256) / gpu.processors, tail = 1, epilogue = 0;
  if (gpu.processors > 1) {
    if (waves > 1) tail = 1 + 0.5 * (std::ceil(waves) / waves - 1);
    epilogue = place.common.epilogue * rate / gpu.gemm_rate(Precision::bf16);
  }
  const double width = format == WeightFormat::f32 ? 4 : 2;
  const double arithmetic = 2 * m * n * (k + epilogue) * tail / rate;
  const double traffic = (matrices * matrix_bytes(format, n, k) + width * m * (n + k)) /
                         (serving_stream_rate(place) * place.product_memory);
  return beside_each_other(gpu, arithmetic, traffic) + place.common.kernel_latency;
}

double serving_layer_products(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                              double tokens) {
  const auto h = static_cast<double>(shape.hidden_size), q = static_cast<double>(shape.q_size()) / layout.tp;
  const double kv = kv_heads_per_gpu(shape, layout.tp) * static_cast<double>(shape.head_dim);
  const auto product = [&](double n, double k) { return serving_product(place, layout.weights, tokens, n, k); };
  double time = product(q + 2 * kv, h) + product(h, q);
  const double up = shape.is_gpt2() ? 1 : 2;
  if (!shape.is_moe()) {
    const double inner = static_cast<double>(shape.intermediate_size) / layout.tp;
    return time + product(up * inner, h) + product(h, inner);
  }
  const auto experts = static_cast<double>(shape.num_local_experts),
             chosen = static_cast<double>(shape.num_experts_per_tok);
  const double inner = static_cast<double>(shape.moe_intermediate_size) / layout.tp;
  const double touched = experts * (1 - std::pow(1 - chosen / experts, tokens));
  const auto grouped = [&](double n, double k) {
    return serving_product(place, layout.weights, tokens * chosen, n, k, touched, place.common.expert_share);
  };
  time += grouped(up * inner, h) + grouped(h, inner) + product(experts, h);
  if (shape.n_shared_experts > 0) {
    const double shared = static_cast<double>(shape.shared_size()) / layout.tp;
    time += product(up * shared, h) + product(h, shared);
  }
  return time;
}

double serving_layer_attention(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                               const StepWork& work) {
  const GpuType& gpu = place.cluster.gpu;
  const double q = static_cast<double>(shape.q_size()) / layout.tp, heads = kv_heads_per_gpu(shape, layout.tp);
  const double peak = layout.weights == WeightFormat::f32 ? gpu.peak_f32 : gpu.peak_bf16;
  const double rate = peak * gpu.attention * place.attention_scale;
  double time = 0;
  if (work.decodes > 0) {
    const double tokens = work.decodes * work.context;
    const double bytes = tokens * cache_bytes(layout.cache, heads, static_cast<double>(shape.head_dim));
    time +=
        beside_each_other(gpu, 4 * tokens * q / rate, bytes / serving_stream_rate(place)) + place.common.kernel_latency;
  }
  if (work.prefill > 0) time += 4 * work.prefill * work.prefill_before * q / rate + place.common.kernel_latency;
  return time;
}

// Sum over the group of [tokens, width] in two bytes. Servers send small ones in one round, each to each.
double serving_group_sum(const ServingLayout& layout, const ServingPlace& place, double elements) {
  if (layout.tp <= 1) return 0;
  const Link link = group_link(place.cluster, place.common, layout.tp, 1);
  const double latency = link.fast ? place.serving.message_latency : link.latency * (1 + std::log2(layout.tp));
  return latency + 2 * (layout.tp - 1.0) / layout.tp * elements * 2 / link.rate;
}

}  // namespace

ServingStepTime serving_step_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                                  const StepWork& work) {
  if (is_timed_there(place, layout)) return processor_step_time(shape, layout, place, work);
  const auto layers = static_cast<double>(shape.num_hidden_layers), h = static_cast<double>(shape.hidden_size);
  const double tokens = work.decodes + work.prefill, rows = work.decodes + work.ended_prompts;
  ServingStepTime time;
  time.products = layers * serving_layer_products(shape, layout, place, tokens);
  const WeightFormat plain = layout.weights == WeightFormat::f32 ? WeightFormat::f32 : WeightFormat::bf16;
  const double vocabulary = static_cast<double>(shape.vocab_size) / layout.tp;
  if (rows > 0) time.products += serving_product(place, plain, rows, vocabulary, h);
  time.attention = layers * serving_layer_attention(shape, layout, place, work);
  // Two norms with their residuals (8 passes over the hidden size), rotary positions and writing the cache (3 over
  // queries, keys and values), the activation (3 over the inner width); some five kernels.
  const double width = plain == WeightFormat::f32 ? 4 : 2;
  const double inner = static_cast<double>(shape.is_moe() ? shape.num_experts_per_tok * shape.moe_intermediate_size
                                                          : shape.intermediate_size);
  const auto qkv = static_cast<double>(shape.q_size() + 2 * shape.kv_size());
  const double bytes = tokens * width * (8 * h + 3 * (qkv + inner) / layout.tp);
  time.streams = layers * (bytes / serving_stream_rate(place) + 5 * place.common.kernel_latency) +
                 rows * vocabulary * 8 / serving_stream_rate(place);
  time.messages = layers * 2 * serving_group_sum(layout, place, tokens * h);
  if (rows > 0) time.messages += serving_group_sum(layout, place, rows * vocabulary);
  time.host = place.serving.step_cost + rows * place.serving.sequence_cost;
  return time;
}

}  // namespace longhaul
