#include "autotune/time/layer_time.h"

#include <algorithm>
#include <cmath>

#include "autotune/time/collective_time.h"

namespace longhaul {

PassTime PassTime::operator+(const PassTime& o) const {
  return {gemm + o.gemm,       attention + o.attention, memory + o.memory, tensor + o.tensor,
          context + o.context, experts + o.experts,     host + o.host};
}

PassTime PassTime::operator*(double f) const {
  return {gemm * f, attention * f, memory * f, tensor * f, context * f, experts * f, host * f};
}

namespace {

// Of a stream through memory, bytes/s.
double memory_rate(const TrainingPlace& place) {
  return place.cluster.gpu.memory_rate * place.common.memory_share;
}

// The share of the last wave of tiles in which processors have nothing to do; half of it is caught by smaller tiles.
double wave_factor(const TrainingPlace& place, double m, double n) {
  const double tiles = std::ceil(m / 128) * std::ceil(n / 256), waves = tiles / place.cluster.gpu.processors;
  if (place.cluster.gpu.processors <= 1) return 1;
  if (waves < 1) return std::min(1 / waves, 4.0);
  return 1 + 0.5 * (std::ceil(waves) / waves - 1);
}

// Sizes of a layer on one rank.
struct Sizes {
  double tokens, hidden, q, kv, heads, head_dim, ffn, up_width;
  Sizes(const TrainingTask& task, const TrainingLayout& layout) {
    const ModelShape& s = task.shape;
    const ParallelDims& d = layout.dims;
    tokens = static_cast<double>(layout.micro_batch_size) * static_cast<double>(task.sequence_length) / d.cp;
    hidden = static_cast<double>(s.hidden_size);
    q = static_cast<double>(s.q_size()) / d.tp, kv = static_cast<double>(s.kv_size()) / d.tp;
    heads = static_cast<double>(s.num_attention_heads) / d.tp, head_dim = static_cast<double>(s.head_dim);
    ffn = static_cast<double>(s.intermediate_size) / d.tp, up_width = static_cast<double>(s.mlp_width()) / d.tp;
  }
};

// Attention's core without its projections.
struct CoreTime {
  double forward = 0, backward = 0;
};

CoreTime attention_core(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const Sizes z(task, layout);
  const CommonConstants& c = place.common;
  const GpuType& gpu = place.cluster.gpu;
  const double scores = z.tokens * static_cast<double>(task.sequence_length) * z.heads;
  const double flops = 4 * scores * z.head_dim;  // queries with keys, and scores with values
  CoreTime core;
  if (!place.framework.fused_attention) {
    // Scores are written, masked and normalised, dropped out, and read: some 11 bytes each in two-byte numbers.
    core.forward = flops / (gpu.peak_bf16 * c.unfused_product) + scores * 11 / (gpu.memory_rate * c.unfused_memory) +
                   4 * c.kernel_latency;
    core.backward = 2 * core.forward;
    return core;
  }
  // The causal half, or what a window leaves of it; five products instead of two on the way back, at four fifths of the
  // rate (Dao 2023, arXiv 2307.08691, figures 5 and 6).
  const double rate = (layout.precision == Precision::f32 ? gpu.peak_f32 : gpu.peak_bf16) * gpu.attention *
                      place.framework.attention_scale;
  const double seen =
      flops * task.shape.keys_per_token(task.sequence_length) / static_cast<double>(task.sequence_length);
  core.forward = seen / rate + c.kernel_latency;
  core.backward = 2.5 * seen / (rate * 0.8) + c.kernel_latency;
  return core;
}

// Feed-forward of a dense layer or the experts that a rank holds: forward only.
double feed_forward_products(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const Sizes z(task, layout);
  const ModelShape& s = task.shape;
  const auto product = [&](double m, double n, double k) { return product_time(place, layout.precision, m, n, k); };
  if (!s.is_moe()) return product(z.tokens, z.up_width, z.hidden) + product(z.tokens, z.hidden, z.ffn);
  const ParallelDims& d = layout.dims;
  // Rows that come to a rank's experts, distributed evenly; each expert is a product of its own.
  const double rows = z.tokens / d.tp * static_cast<double>(s.num_experts_per_tok) * d.etp;
  const double here = static_cast<double>(s.num_local_experts) / d.ep;
  const double width = static_cast<double>(s.moe_intermediate_size) / d.etp;
  double time = here * (product(rows / here, 2 * width, z.hidden) + product(rows / here, z.hidden, width));
  time /= place.common.expert_share;
  if (s.n_shared_experts > 0) {
    const double shared = static_cast<double>(s.shared_size()), mine = z.tokens / d.tp;
    time += product(mine, 2 * shared, z.hidden) + product(mine, z.hidden, shared);
  }
  return time;
}

// Bytes that stream through memory in a forward pass beside products and attention: norms, residuals, biases and
// dropout over the hidden size (13 two-byte passes), rotary positions and their copies over q, k and v (3), and the
// activation over the feed-forward's width.
double streamed_bytes(const TrainingTask& task, const TrainingLayout& layout) {
  const Sizes z(task, layout);
  const ModelShape& s = task.shape;
  const double width = layout.precision == Precision::f32 ? 4 : 2, split = layout.dims.sp ? layout.dims.tp : 1;
  double ffn = z.ffn * (s.is_gpt2() ? 3 : 5);
  if (s.is_moe()) {
    const double rows = static_cast<double>(s.num_experts_per_tok) / layout.dims.tp;
    // Permuting rows to experts and back, and weighing them, is four passes over the hidden size.
    ffn = rows * (static_cast<double>(s.moe_intermediate_size) * 5 + z.hidden * 4) +
          static_cast<double>(s.shared_size()) / layout.dims.tp * 5;
  }
  return z.tokens * width * (13 * z.hidden / split + 3 * (z.q + 2 * z.kv) + ffn);
}

// Between the ranks of a cp group, as the engine sends them (engine/parallel/*_attention.cc).
void add_context_messages(const Sizes& z, const TrainingLayout& layout, const TrainingPlace& place,
                          double attention_forward, PassTime& forward, PassTime& backward) {
  const int cp = layout.dims.cp, stride = layout.dims.tp;
  const CommonConstants& c = place.common;
  const double width = layout.precision == Precision::f32 ? 4 : 2;
  const Link link = group_link(place.cluster, c, cp, stride);
  switch (layout.context) {
    case ContextKind::ring: {
      // Keys and values go round the ring beside the attention of those at hand (Liu et al. 2023, arXiv 2310.01889); on
      // the way back their gradients as well.
      const double round = 2 * z.kv * z.tokens * width * (cp - 1) / link.rate;
      forward.context = std::max(0.0, round - 0.8 * attention_forward) + link.latency * cp;
      backward.context = 2 * forward.context;
      return;
    }
    case ContextKind::gather: {
      // Keys and values of all ranks before either pass, and the sums of their gradients in f32 after the second;
      // nothing hides them.
      const double whole = 2 * z.kv * z.tokens * cp;
      forward.context = all_gather_time(cp, whole * width, link, c.ring_latency);
      backward.context = forward.context + all_gather_time(cp, whole * 4, link, c.ring_latency);
      return;
    }
    case ContextKind::a2a: {
      // Queries, keys and values for whole sequences of some heads, and what attention gives of them back; on the way
      // back that with its gradient, and the gradients of all three. Nothing hides them.
      const Link all = exchange_link(place.cluster, c, cp, stride);
      const auto exchange = [&](double columns) { return all_to_all_time(cp, z.tokens * columns * width, all); };
      forward.context = exchange(z.q + 2 * z.kv) + exchange(z.q);
      backward.context = exchange(2 * z.q) + exchange(z.q + 2 * z.kv);
      return;
    }
  }
}

// Messages of one pass over a layer that nothing hides.
void add_messages(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                  double attention_forward, PassTime& forward, PassTime& backward) {
  const Sizes z(task, layout);
  const ParallelDims& d = layout.dims;
  const CommonConstants& c = place.common;
  const double width = layout.precision == Precision::f32 ? 4 : 2;
  if (d.tp > 1) {
    // Two sums over the group in each direction; with sequence parallelism as many bytes go as shares and come back.
    const Link link = group_link(place.cluster, c, d.tp, 1);
    const double sums = task.shape.is_moe() ? 1 : 2;  // experts have messages of their own
    forward.tensor = sums * all_reduce_time(d.tp, z.tokens * z.hidden * width, link) * place.framework.tensor_exposed;
    backward.tensor = forward.tensor;
  }
  if (d.cp > 1) add_context_messages(z, layout, place, attention_forward, forward, backward);
  if (task.shape.is_moe() && d.ep * d.etp > 1) {
    const Link link = exchange_link(place.cluster, c, d.ep * d.etp, 1);
    const double rows = z.tokens / d.tp * static_cast<double>(task.shape.num_experts_per_tok);
    forward.experts =
        2 * all_to_all_time(d.ep * d.etp, rows * z.hidden * width * d.etp, link) * place.framework.expert_exposed;
    backward.experts = forward.experts;
  }
}

// What the GPU waits for its host: launches and kernels of a layer overlap in part, so that neither the longer of both
// times nor their sum is seen but a mean of power `host_mix` between them.
double host_wait(const TrainingPlace& place, double gpu, double host) {
  if (host <= 0) return 0;
  const double p = place.common.host_mix;
  return std::pow(std::pow(gpu, p) + std::pow(host, p), 1 / p) - gpu;
}

// A pass again, as far as it is recomputed. `up_products` are all of the feed-forward's; its last one is a third of
// them where it has a gate, else half.
PassTime recomputed(const TrainingTask& task, const TrainingLayout& layout, const FrameworkProfile& framework,
                    const PassTime& forward, double core, double up_products, double streamed) {
  const Recompute& again = layout.recompute;
  PassTime time;
  if (again.block) {
    time = forward;
    if (!framework.recompute_last) {
      time.gemm -= up_products * (task.shape.is_gpt2() ? 0.5 : 1.0 / 3);
      if (!task.shape.is_moe()) time.tensor *= 0.5;  // nor is its sum
    }
    return time;
  }
  if (again.norms) time.memory += 0.3 * streamed;
  if (again.attention) {
    time.attention += core;
    // q, k and v where they are not kept; not the output's projection.
    if (!framework.keeps_qkv) time.gemm += 0.5 * (forward.gemm - up_products);
  }
  if (again.feed_forward) time.gemm += 0.6 * up_products, time.tensor += 0.25 * forward.tensor;
  if (again.activation || again.feed_forward) time.memory += 0.3 * streamed;
  return time;
}

}  // namespace

double product_time(const TrainingPlace& place, Precision precision, double m, double n, double k) {
  const GpuType& gpu = place.cluster.gpu;
  const CommonConstants& c = place.common;
  const double rate = gpu.gemm_rate(precision);
  const double epilogue = gpu.processors > 1 ? c.epilogue * rate / gpu.gemm_rate(Precision::bf16) : 0;
  const double width = precision == Precision::f32 ? 4 : 2;
  const double arithmetic = 2 * m * n * (k + epilogue) * wave_factor(place, m, n) / rate;
  const double traffic = width * (m * k + k * n + m * n) / (memory_rate(place) * place.framework.product_memory);
  // A GPU loads the next tiles while it multiplies; a core does one after the other.
  const double both = gpu.processors > 1 ? std::max(arithmetic, traffic) : arithmetic + traffic;
  double time = both + c.kernel_latency;
  if (precision == Precision::fp8 || precision == Precision::fp4)
    time += c.cast_traffic * 1.5 * m * k / memory_rate(place);  // read in two bytes, written in one
  return time;
}

LayerTime layer_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const Sizes z(task, layout);
  const FrameworkProfile& f = place.framework;
  const double projections = product_time(place, layout.precision, z.tokens, z.q + 2 * z.kv, z.hidden) +
                             product_time(place, layout.precision, z.tokens, z.hidden, z.q);
  const double feed_forward = feed_forward_products(task, layout, place);
  const CoreTime core = attention_core(task, layout, place);
  const double routing = task.shape.is_moe() ? place.common.expert_latency : 0;
  const double streamed = routing + f.stream_passes * streamed_bytes(task, layout) / memory_rate(place) +
                          f.kernels * place.common.kernel_latency;

  LayerTime time;
  time.forward.gemm = projections + feed_forward, time.forward.attention = core.forward;
  time.forward.memory = streamed;
  // Twice the products: gradients of inputs and of weights.
  time.backward.gemm = f.backward_products * time.forward.gemm, time.backward.attention = core.backward;
  time.backward.memory = 2 * streamed;
  time.weight_gradients = f.backward_products / 2 * time.forward.gemm;
  add_messages(task, layout, place, core.forward, time.forward, time.backward);
  const double host = f.host_layer * (1 + f.host_tensor * (layout.dims.tp - 1));
  const auto busy = [](const PassTime& pass) { return pass.total() - pass.context; };
  time.forward.host = host_wait(place, busy(time.forward), host);
  time.backward.host = host_wait(place, busy(time.backward), host * f.host_backward);
  time.again = recomputed(task, layout, f, time.forward, core.forward, feed_forward, streamed);
  return time;
}

EndTimes end_times(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const Sizes z(task, layout);
  const double vocabulary = static_cast<double>(task.shape.output_size()) / layout.dims.tp;
  // The output's product stays in bf16 below it; the loss reads and writes its scores some seven times in two bytes.
  const Precision precision = layout.precision == Precision::f32 ? Precision::f32 : Precision::bf16;
  const double product = product_time(place, precision, z.tokens, vocabulary, z.hidden);
  EndTimes ends;
  ends.embedding = z.tokens * z.hidden * 10 / memory_rate(place);
  ends.output_forward.gemm = product, ends.output_backward.gemm = place.framework.backward_products * product;
  ends.output_forward.memory = z.tokens * (vocabulary * 6 + z.hidden * 4) / memory_rate(place);
  ends.output_backward.memory = z.tokens * (vocabulary * 8 + z.hidden * 6) / memory_rate(place);
  const double exponentials = z.tokens * vocabulary * place.framework.logit_cost;
  ends.output_forward.memory += exponentials / 2, ends.output_backward.memory += exponentials / 2;
  ends.output_forward = ends.output_forward * (1 + task.output_forwards_more);
  const double gpu = ends.embedding + ends.output_forward.total() + ends.output_backward.total();
  ends.output_backward.host = host_wait(place, gpu, place.framework.host_head);
  return ends;
}

double forward_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const EndTimes ends = end_times(task, layout, place);
  const double layers = static_cast<double>(task.shape.num_hidden_layers);
  return layers * layer_time(task, layout, place).forward.total() + ends.embedding + ends.output_forward.total();
}

}  // namespace longhaul
