// Every part of a forecast beside the same sum done by hand: a term that is lost, counted twice or a twentieth off
// turns one of these red, which tests of what users know of layouts do not notice.
#include <doctest/doctest.h>

#include <cmath>

#include "autotune/time/collective_time.h"
#include "autotune/time/layer_time.h"
#include "autotune/time/step_time.h"
#include "tests/support/relative.h"

namespace longhaul {
namespace {

namespace step_parts_test {

TrainingPlace h100s() {
  const TimeConstants all = read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  const GpuType type = all.gpu_named("H100").value();
  return {{type, 8, type.link_domain, type.nic_rate}, all.framework("megatron").value(), all.common};
}

// 32 layers of width 4096, 32 heads of 128, 8 of keys and values, feed-forward of 14336, 64 sequences of 8192 tokens.
TrainingTask llama_8b() {
  TrainingTask task;
  ModelShape& s = task.shape;
  s.num_hidden_layers = 32, s.hidden_size = 4096, s.intermediate_size = 14336, s.vocab_size = 128256;
  s.num_attention_heads = 32, s.num_key_value_heads = 8, s.head_dim = 128, s.tie_word_embeddings = false;
  task.sequence_length = 8192, task.global_batch_size = 64;
  return task;
}

double stream_rate(const TrainingPlace& place) {
  return place.cluster.gpu.memory_rate * place.common.memory_share;
}

// A mean of power host_mix between both times, less the GPU's own.
double waits_for_host(const TrainingPlace& place, double gpu, double host) {
  const double p = place.common.host_mix;
  return std::pow(std::pow(gpu, p) + std::pow(host, p), 1 / p) - gpu;
}

TEST_CASE("by hand: a product takes its arithmetic in waves of tiles, or its traffic, and a cast before it") {
  const TrainingPlace place = h100s();
  const GpuType& gpu = place.cluster.gpu;
  const CommonConstants& c = place.common;
  REQUIRE(gpu.processors == 132);
  // 32 x 32 tiles of 128 x 256 are 7.76 waves of 132: of what is empty in the eighth half is caught.
  const double waves = 1024.0 / 132, large = 1 + (8 / waves - 1) / 2;
  const double flops = 2.0 * 4096 * 8192 * (4096 + c.epilogue), bf16_rate = gpu.gemm_rate(Precision::bf16);
  CHECK(product_time(place, Precision::bf16, 4096, 8192, 4096) ==
        testing::relative(flops * large / bf16_rate + c.kernel_latency));
  // Eight rows: 32 tiles leave most processors idle, and reading the weights takes longer all the same.
  const double numbers = 8 * 4096.0 + 4096.0 * 8192 + 8 * 8192.0;
  CHECK(product_time(place, Precision::bf16, 8, 8192, 4096) ==
        testing::relative(2 * numbers / (stream_rate(place) * place.framework.product_memory) + c.kernel_latency));
  const double fp8_rate = gpu.gemm_rate(Precision::fp8), columns = 4096 + c.epilogue * fp8_rate / bf16_rate;
  CHECK(product_time(place, Precision::fp8, 4096, 8192, 4096) ==
        testing::relative(2.0 * 4096 * 8192 * columns * large / fp8_rate + c.kernel_latency +
                          c.cast_traffic * 1.5 * 4096 * 4096 / stream_rate(place)));
}

TEST_CASE("by hand: a layer is four products, attention's core, what streams, two sums a pass and waits for the host") {
  const TrainingPlace place = h100s();
  const FrameworkProfile& f = place.framework;
  const TrainingTask task = llama_8b();
  TrainingLayout layout;
  layout.dims.tp = 2, layout.dims.sp = true, layout.dims.dp_shard = 4, layout.dims.zero = 1;
  const LayerTime t = layer_time(task, layout, place);
  const double tokens = 8192, h = 4096, q = 2048, kv = 512, inner = 7168;
  const auto product = [&](double n, double k) { return product_time(place, Precision::bf16, tokens, n, k); };
  const double products = product(q + 2 * kv, h) + product(h, q) + product(2 * inner, h) + product(h, inner);
  CHECK(t.forward.gemm == testing::relative(products));
  CHECK(t.backward.gemm == testing::relative(f.backward_products * products));
  CHECK(t.weight_gradients == testing::relative(f.backward_products * products / 2));
  // Scores and values, 2 flops each for 16 heads of 128, of half the keys; five products on the way back.
  const double rate = place.cluster.gpu.peak_bf16 * place.cluster.gpu.attention * f.attention_scale;
  const double core = 4 * tokens * 4096 * q / rate, latency = place.common.kernel_latency;
  CHECK(t.forward.attention == testing::relative(core + latency));
  CHECK(t.backward.attention == testing::relative(2.5 * core / 0.8 + latency));
  const double bytes = tokens * 2 * (13 * h / 2 + 3 * (q + 2 * kv) + 5 * inner);
  const double streamed = f.stream_passes * bytes / stream_rate(place) + f.kernels * latency;
  CHECK(t.forward.memory == testing::relative(streamed));
  CHECK(t.backward.memory == testing::relative(2 * streamed));
  const Link link = group_link(place.cluster, place.common, 2, 1);
  CHECK(t.forward.tensor == testing::relative(2 * all_reduce_time(2, tokens * h * 2, link) * f.tensor_exposed));
  CHECK(t.backward.tensor == testing::relative(t.forward.tensor));
  const double host = f.host_layer * (1 + f.host_tensor);
  CHECK(t.forward.host ==
        testing::relative(waits_for_host(place, t.forward.total() - t.forward.host, host)).epsilon(1e-6));
  CHECK(t.backward.host ==
        testing::relative(waits_for_host(place, t.backward.total() - t.backward.host, host * f.host_backward))
            .epsilon(1e-6));
}

TEST_CASE("by hand: experts multiply the rows that come to them, which travel there and back") {
  const TrainingPlace place = h100s();
  TrainingTask task = llama_8b();
  ModelShape& s = task.shape;
  s.architecture = "mixtral", s.num_local_experts = 8, s.num_experts_per_tok = 2, s.moe_intermediate_size = 14336;
  TrainingLayout layout;
  layout.dims.dp_shard = 8, layout.dims.zero = 1, layout.dims.ep = 4;
  const LayerTime t = layer_time(task, layout, place);
  const auto product = [&](double m, double n, double k) { return product_time(place, Precision::bf16, m, n, k); };
  // 16,384 rows for two of the eight experts on each rank.
  const double experts = 2 * (product(8192, 2 * 14336, 4096) + product(8192, 4096, 14336)) / place.common.expert_share;
  const double projections = product(8192, 6144, 4096) + product(8192, 4096, 4096);
  CHECK(t.forward.gemm == testing::relative(projections + experts));
  const Link link = exchange_link(place.cluster, place.common, 4, 1);
  CHECK(t.forward.experts ==
        testing::relative(2 * all_to_all_time(4, 2 * 8192 * 4096.0 * 2, link) * place.framework.expert_exposed));
  CHECK(t.backward.experts == testing::relative(t.forward.experts));
  const double bytes = 8192.0 * 2 * (13 * 4096 + 3 * 6144.0 + 2 * (14336 * 5 + 4096 * 4.0));
  CHECK(t.forward.memory ==
        testing::relative(place.common.expert_latency + place.framework.stream_passes * bytes / stream_rate(place) +
                          place.framework.kernels * place.common.kernel_latency));
}

TEST_CASE("by hand: embedding, output and loss") {
  TrainingPlace place = h100s();
  place.framework.logit_cost = 3e-12, place.framework.host_head = 0;
  TrainingTask task = llama_8b();
  TrainingLayout layout;
  layout.dims.dp_shard = 8, layout.dims.zero = 1;
  const EndTimes t = end_times(task, layout, place);
  const double product = product_time(place, Precision::bf16, 8192, 128256, 4096), rate = stream_rate(place);
  CHECK(t.embedding == testing::relative(8192.0 * 4096 * 10 / rate));
  CHECK(t.output_forward.gemm == testing::relative(product));
  CHECK(t.output_backward.gemm == testing::relative(place.framework.backward_products * product));
  const double exponentials = 8192.0 * 128256 * 3e-12 / 2;
  CHECK(t.output_forward.memory == testing::relative(8192.0 * (128256 * 6.0 + 4096 * 4) / rate + exponentials));
  CHECK(t.output_backward.memory == testing::relative(8192.0 * (128256 * 8.0 + 4096 * 6) / rate + exponentials));
  place.framework.host_head = 1e-3;
  const double gpu = t.embedding + t.output_forward.total() + t.output_backward.total();
  CHECK(end_times(task, layout, place).output_backward.host == testing::relative(waits_for_host(place, gpu, 1e-3)));
  task.output_forwards_more = 1;  // DPO looks at both answers' losses first
  CHECK(end_times(task, layout, place).output_forward.gemm == testing::relative(2 * product));
}

constexpr double layer_weights = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336;
constexpr double all_weights = 32 * layer_weights + 2 * 128256.0 * 4096;

TEST_CASE("by hand: a step on eight replicas is eight micro-batches, the update and what its messages do not hide") {
  const TrainingPlace place = h100s();
  const FrameworkProfile& f = place.framework;
  const TrainingTask task = llama_8b();
  TrainingLayout layout;
  layout.dims.dp_shard = 8, layout.dims.zero = 1;
  const LayerTime layer = layer_time(task, layout, place);
  const EndTimes ends = end_times(task, layout, place);
  const StepTime t = step_time(task, layout, place).value();
  const PassTime all = (layer.forward + layer.backward) * 32 + ends.output_forward + ends.output_backward;
  CHECK(t[StepPart::products] == testing::relative(8 * all.gemm));
  CHECK(t[StepPart::attention] == testing::relative(8 * all.attention));
  CHECK(t[StepPart::memory] == testing::relative(8 * (all.memory + ends.embedding)));
  CHECK(t[StepPart::host] == testing::relative(8 * all.host));
  const Link link = group_link(place.cluster, place.common, 8, 1);
  const double hop = place.common.ring_latency;
  const auto exposed = [&](double time, double hidden) { return std::max(f.data_exposed * time, time - hidden); };
  const double gradients = all_gather_time(8, all_weights * f.gradient_bytes, link, hop),
               weights = all_gather_time(8, all_weights * 2, link, hop);
  CHECK(t[StepPart::data] == testing::relative(exposed(gradients, 32 * layer.backward.total()) +
                                               exposed(weights, 32 * layer.forward.total())));
  CHECK(t[StepPart::optimizer] == testing::relative(all_weights * (f.optimizer_traffic / 8 + 8) / stream_rate(place)));
  const double before =
      t.seconds() - t[StepPart::overhead] + place.common.step_overhead +
      8 * (place.common.micro_batch_overhead + all_weights * f.accumulate_traffic / stream_rate(place));
  CHECK(t.seconds() == testing::relative(before * (1 + place.common.jitter * 3)));  // eight ranks: three doublings
  CHECK(t[StepPart::bubble] == 0);
}

TEST_CASE("by hand: messages of tp, cp and ep are in a step as often as its layers and micro-batches are") {
  TrainingPlace place = h100s();
  TrainingTask task = llama_8b();
  TrainingLayout layout;
  layout.dims.tp = 2, layout.dims.cp = 2, layout.dims.dp_shard = 2, layout.dims.zero = 1;
  layout.context = ContextKind::gather;
  LayerTime layer = layer_time(task, layout, place);
  StepTime t = step_time(task, layout, place).value();
  CHECK(t[StepPart::tensor] == testing::relative(32 * 32 * (layer.forward.tensor + layer.backward.tensor)));
  CHECK(t[StepPart::context] == testing::relative(32 * 32 * (layer.forward.context + layer.backward.context)));
  ModelShape& s = task.shape;
  s.architecture = "mixtral", s.num_local_experts = 8, s.num_experts_per_tok = 2, s.moe_intermediate_size = 14336;
  layout.dims.tp = layout.dims.cp = 1, layout.dims.dp_shard = 8, layout.dims.ep = 4;
  layer = layer_time(task, layout, place), t = step_time(task, layout, place).value();
  CHECK(t[StepPart::experts] == testing::relative(8 * 32 * (layer.forward.experts + layer.backward.experts)));
}

TEST_CASE("by hand: recomputed layers, moments on the host, and weights that are gathered layer by layer") {
  TrainingPlace place = h100s();
  const TrainingTask task = llama_8b();
  TrainingLayout layout;
  layout.dims.dp_shard = 8, layout.dims.zero = 3;
  layout.recompute.block = true, layout.recompute.layers = 10, layout.offload_moments = true;
  place.framework.recompute_last = true;
  const LayerTime layer = layer_time(task, layout, place);
  const auto step = [&] { return step_time(task, layout, place).value(); };
  CHECK(layer.again.total() == testing::relative(layer.forward.total()));
  CHECK(step()[StepPart::recompute] == testing::relative(8 * 10 * layer.forward.total()));
  CHECK(step()[StepPart::optimizer] ==
        testing::relative(all_weights * (place.framework.optimizer_traffic / 8 + 8) / stream_rate(place) +
                          all_weights / 8 * 24 / place.common.host_rate));
  const Link link = group_link(place.cluster, place.common, 8, 1);
  place.framework.gathers_per_layer = 1, place.framework.shard_overlap = false;
  const double gather = all_gather_time(8, 2 * layer_weights, link, place.common.ring_latency);
  CHECK(step()[StepPart::gathers] == testing::relative(8 * 32 * 3 * gather));
  // Beside the computation the longer of both counts, and a share of the shorter.
  place.framework.shard_overlap = true;
  const auto beyond = [&](double work, double messages) {
    return std::max(work, messages) + place.common.shard_contention * std::min(work, messages) - work;
  };
  const double back = layer.backward.total() + layer.again.total();
  CHECK(step()[StepPart::gathers] ==
        testing::relative(8 * 32 * (beyond(layer.forward.total(), gather) + beyond(back, 2 * gather))));
}

TEST_CASE("by hand: a pipeline of equal stages idles for pp - 1 micro-batches and sends between them") {
  TrainingPlace place = h100s();
  place.framework.pipeline_exposed = 0.5;
  TrainingTask task = llama_8b();
  task.shape.vocab_size = 8;  // next to nothing at the ends
  TrainingLayout layout;
  layout.dims.pp = 4, layout.dims.dp_replicate = 2;
  const LayerTime layer = layer_time(task, layout, place);
  const EndTimes ends = end_times(task, layout, place);
  const StepTime t = step_time(task, layout, place).value();
  const Link link = neighbour_link(place.cluster, place.common, 2, 8);
  const double sent = link.latency + 8192.0 * 4096 * 2 / link.rate;
  CHECK(t[StepPart::sends] == testing::relative(32 * 2 * sent * 0.5));
  const double accumulated = (8 * layer_weights + 8 * 4096.0) * place.framework.accumulate_traffic / stream_rate(place);
  const double micro_batch =
      8 * (layer.forward.total() + layer.backward.total()) + sent + place.common.micro_batch_overhead + accumulated;
  const double at_ends = ends.embedding + ends.output_forward.total() + ends.output_backward.total();
  // The first stage waits for three stages there and back, each of which sends as well.
  CHECK(t[StepPart::bubble] ==
        testing::relative(3 * (micro_batch + 2 * sent)).epsilon(34 * at_ends / (3 * micro_batch)));
}

}  // namespace step_parts_test

}  // namespace
}  // namespace longhaul
