#include "autotune/inference/processor_serving.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace longhaul {
namespace {

constexpr std::size_t row_count = std::size(serving_rows);

double between_rows(std::span<const ServedProduct> timed, double rows) {
  std::size_t above = 1;
  while (above + 1 < timed.size() && static_cast<double>(timed[above].rows) < rows) ++above;
  const ServedProduct &low = timed[above - 1], &high = timed[above];
  const double part = (rows - static_cast<double>(low.rows)) / static_cast<double>(high.rows - low.rows);
  const double slope = std::max(0.0, high.seconds - low.seconds);  // more rows never take less
  if (part >= 1) return high.seconds + (part - 1) * slope;
  return low.seconds + std::max(0.0, part) * (high.seconds - low.seconds);
}

// Where `bytes` lie between the sizes that were timed: the first size above, and how far it is from the one before, in
// logarithms. At either end: 0, or the number of sizes.
struct Between {
  std::size_t above = 0;
  double part = 0;
};
Between between_sizes(std::span<const std::int64_t> sizes, double bytes) {
  Between at;
  while (at.above < sizes.size() && static_cast<double>(sizes[at.above]) < bytes) ++at.above;
  if (at.above == 0 || at.above == sizes.size()) return at;
  const auto low = static_cast<double>(sizes[at.above - 1]), high = static_cast<double>(sizes[at.above]);
  at.part = std::log(bytes / low) / std::log(high / low);
  return at;
}

double bytes_of_number(const ServingLayout& layout) {
  return layout.weights == WeightFormat::f32 ? 4 : 2;
}

// A layer's matrices as [out, in], and how often each is there.
struct LayerMatrix {
  double out = 0, in = 0, rows = 0, count = 1;
};

std::vector<LayerMatrix> layer_matrices(const ModelShape& s, double tokens) {
  const auto h = static_cast<double>(s.hidden_size), q = static_cast<double>(s.q_size());
  std::vector<LayerMatrix> all = {{q + 2 * static_cast<double>(s.kv_size()), h, tokens}, {h, q, tokens}};
  const double up = s.is_gpt2() ? 1 : 2;
  if (!s.is_moe()) {
    const auto inner = static_cast<double>(s.intermediate_size);
    all.push_back({up * inner, h, tokens}), all.push_back({h, inner, tokens});
    return all;
  }
  const auto experts = static_cast<double>(s.num_local_experts), chosen = static_cast<double>(s.num_experts_per_tok);
  const double touched = experts * (1 - std::pow(1 - chosen / experts, tokens));
  const double rows = tokens * chosen / touched, inner = static_cast<double>(s.moe_intermediate_size);
  all.push_back({experts, h, tokens});
  all.push_back({up * inner, h, rows, touched}), all.push_back({h, inner, rows, touched});
  if (s.n_shared_experts > 0) {
    const auto shared = static_cast<double>(s.shared_size());
    all.push_back({up * shared, h, tokens}), all.push_back({h, shared, tokens});
  }
  return all;
}

}  // namespace

double weight_seconds(const ServingSpeed& speed, double rows, double bytes) {
  const auto of_set = [&](std::size_t set) {
    return between_rows(std::span(speed.products).subspan(set * row_count, row_count), rows);
  };
  const auto [above, part] = between_sizes(serving_sets, bytes);
  if (above == 0) return of_set(0);
  if (above == std::size(serving_sets)) return of_set(above - 1);
  return of_set(above - 1) * (1 - part) + of_set(above) * part;
}

double cache_seconds(const ServingSpeed& speed, double bytes) {
  const double timed[] = {speed.cache_near, speed.cache_shared, speed.cache_far};
  static_assert(std::size(timed) == std::size(serving_caches));
  const auto [above, part] = between_sizes(serving_caches, bytes);
  if (above == 0) return timed[0];
  if (above == std::size(serving_caches)) return timed[above - 1];
  return timed[above - 1] * (1 - part) + timed[above] * part;
}

bool is_timed_there(const ServingPlace& place, const ServingLayout& layout) {
  const bool plain = layout.weights == WeightFormat::f32 || layout.weights == WeightFormat::bf16;
  return place.processor.known() && layout.tp == 1 && plain;
}

ServingStepTime processor_step_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                                    const StepWork& work) {
  const ServingSpeed& speed = place.processor;
  const auto layers = static_cast<double>(shape.num_hidden_layers), h = static_cast<double>(shape.hidden_size);
  const auto vocabulary = static_cast<double>(shape.vocab_size);
  const double tokens = work.decodes + work.prefill, rows = work.decodes + work.ended_prompts;
  const std::vector<LayerMatrix> matrices = layer_matrices(shape, std::max(1.0, tokens));
  double weights = rows > 0 ? vocabulary * h : 0;  // that a step reads
  for (const LayerMatrix& m : matrices) weights += layers * m.count * m.out * m.in;
  // Before a step reads a weight again it has read all others, and all keys and values.
  const auto q = static_cast<double>(shape.q_size()), kv = static_cast<double>(shape.kv_size());
  const double cache_numbers = 2 * layers * work.decodes * work.context * kv;
  const double bytes = (weights + cache_numbers) * bytes_of_number(layout);
  const auto product = [&](const LayerMatrix& m) {
    return m.count * (speed.call + m.out * m.in * weight_seconds(speed, m.rows, bytes));
  };

  ServingStepTime time;
  for (const LayerMatrix& m : matrices) time.products += layers * product(m);
  if (rows > 0) time.products += product({vocabulary, h, rows});
  if (work.decodes > 0)
    time.attention += layers * work.decodes * work.context * (q * speed.attention + kv * cache_seconds(speed, bytes));
  time.attention += layers * work.prefill * work.prefill_before * q * speed.prompt_attention;
  const double inner = static_cast<double>(shape.is_moe() ? shape.num_experts_per_tok * shape.moe_intermediate_size
                                                          : shape.intermediate_size);
  const double elements = 8 * h + 3 * (q + 2 * kv + inner);
  time.streams = layers * (speed.layer + tokens * elements * speed.element);
  time.host = rows * vocabulary * speed.logit;
  return time;
}

}  // namespace longhaul
