#include "autotune/time/step_time.h"

#include <doctest/doctest.h>

#include <random>

#include "autotune/time/collective_time.h"
#include "autotune/time/layer_time.h"
#include "tests/support/relative.h"

namespace longhaul {
namespace {

const TimeConstants& shipped_constants() {
  static const TimeConstants constants =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return constants;
}

TrainingPlace place_of(const std::string& gpu, const std::string& framework) {
  const GpuType type = shipped_constants().gpu_named(gpu).value();
  return {{type, 8, type.link_domain, type.nic_rate},
          shipped_constants().framework(framework).value(),
          shipped_constants().common};
}

TrainingTask llama_task(int layers, int hidden, std::int64_t batch) {
  TrainingTask task;
  ModelShape& s = task.shape;
  s.num_hidden_layers = layers, s.hidden_size = hidden, s.intermediate_size = 7 * hidden / 2, s.vocab_size = 128256;
  s.num_attention_heads = hidden / 128, s.num_key_value_heads = 8, s.head_dim = 128, s.tie_word_embeddings = false;
  task.sequence_length = 8192, task.global_batch_size = batch;
  return task;
}

double seconds(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  return step_time(task, layout, place).value().seconds();
}

TEST_CASE("collectives cost their bytes over the rate, and nothing alone") {
  const Link link{100e9, 10e-6, true};
  CHECK(all_reduce_time(1, 1e9, link) == 0);
  CHECK(all_reduce_time(2, 100e9, link) == testing::relative(1 + 20e-6));
  CHECK(all_gather_time(4, 100e9, link, 1e-6) == testing::relative(0.75 + 3e-6));
  CHECK(all_to_all_time(8, 100e9, link) == testing::relative(0.875 + 40e-6));
}

TEST_CASE("groups within a domain use its links, wider ones the cards of all their ranks in a domain") {
  const TrainingPlace place = place_of("H100", "megatron");
  const Link inside = group_link(place.cluster, place.common, 8, 1);
  const Link alone = group_link(place.cluster, place.common, 4, 8),
             shared = group_link(place.cluster, place.common, 16, 2);
  CHECK(inside.fast);
  CHECK(!alone.fast);
  CHECK(alone.rate == testing::relative(place.cluster.nic_rate * place.common.nic_share));
  CHECK(shared.rate == testing::relative(4 * alone.rate));
}

TEST_CASE("an exchange beyond the domain goes through each rank's own cards, unlike a ring") {
  const TrainingPlace place = place_of("H100", "megatron");
  const Cluster& c = place.cluster;
  const double link = c.gpu.link_rate * place.common.link_share, nic = c.nic_rate * place.common.nic_share;
  CHECK(exchange_link(c, place.common, 8, 1).rate == testing::relative(link));
  const Link two_nodes = exchange_link(c, place.common, 16, 1);  // 8 of the 15 others are on the other node
  CHECK(!two_nodes.fast);
  CHECK(two_nodes.rate == testing::relative(nic * 15 / 8));
  CHECK(two_nodes.rate < group_link(c, place.common, 16, 1).rate / 3);
  CHECK(exchange_link(c, place.common, 4, 8).rate == testing::relative(nic));  // nobody else of its group on its node
}

TEST_CASE("each way of attention over a cp group pays for the messages that the engine sends") {
  const TrainingPlace place = place_of("H100", "longhaul");
  const TrainingTask task = llama_task(4, 4096, 16);
  TrainingLayout layout;
  layout.dims.cp = 4, layout.dims.dp_replicate = 2;
  const auto of = [&](ContextKind kind) {
    layout.context = kind;
    return layer_time(task, layout, place);
  };
  const Link link = group_link(place.cluster, place.common, 4, 1);
  const double tokens = 8192.0 / 4, q = 4096, kv = 1024, hop = place.common.ring_latency;
  const LayerTime gather = of(ContextKind::gather), a2a = of(ContextKind::a2a), ring = of(ContextKind::ring);
  const double keys = all_gather_time(4, 2 * kv * 8192 * 2, link, hop);
  CHECK(gather.forward.context == testing::relative(keys));
  CHECK(gather.backward.context == testing::relative(keys + all_gather_time(4, 2 * kv * 8192 * 4, link, hop)));
  const auto exchange = [&](double columns) { return all_to_all_time(4, tokens * columns * 2, link); };
  CHECK(a2a.forward.context == testing::relative(exchange(q + 2 * kv) + exchange(q)));
  CHECK(a2a.backward.context == testing::relative(exchange(2 * q) + exchange(q + 2 * kv)));
  CHECK(ring.forward.context < gather.forward.context);  // it computes meanwhile
  CHECK(ring.forward.attention == a2a.forward.attention);
  layout.dims.cp = 1, layout.dims.dp_replicate = 8;
  CHECK(of(ContextKind::a2a).forward.context == 0);
}

TEST_CASE("virtual stages hide the sums of gradients behind the last group of micro-batches") {
  const TrainingTask task = llama_task(96, 12288, 64);
  TrainingPlace place = place_of("B200", "megatron-speed");
  TrainingLayout plain;
  plain.dims.tp = 8, plain.dims.sp = true, plain.dims.pp = 4, plain.dims.dp_shard = 4, plain.dims.zero = 1;
  TrainingLayout chunked = plain;
  chunked.dims.vp = 6, chunked.schedule = PipelineKind::interleaved;
  place.framework.data_exposed = 0;
  const double alone = step_time(task, plain, place).value()[StepPart::data];
  const double hidden = step_time(task, chunked, place).value()[StepPart::data];
  CHECK(alone > 0);
  CHECK(hidden < alone / 2);
  place.framework.data_exposed = 1;  // a program that hides nothing pays for all of it either way
  CHECK(step_time(task, plain, place).value()[StepPart::data] ==
        testing::relative(step_time(task, chunked, place).value()[StepPart::data]));
}

TEST_CASE(
    "recomputing attention costs its core alone where queries, keys and values are kept; eager norms stream more") {
  const TrainingTask task = llama_task(32, 4096, 64);
  TrainingLayout layout;
  layout.dims.dp_shard = 8, layout.dims.zero = 1, layout.recompute.attention = true;
  TrainingPlace place = place_of("H100", "megatron");
  const auto again = [&] { return layer_time(task, layout, place).again; };
  place.framework.keeps_qkv = true;
  CHECK(again().gemm == 0);
  CHECK(again().attention > 0);
  place.framework.keeps_qkv = false;
  CHECK(again().gemm > 0);
  const double fused = layer_time(task, layout, place).forward.memory;
  place.framework.stream_passes = 2;
  CHECK(layer_time(task, layout, place).forward.memory > 1.8 * fused);
}

TEST_CASE("an interval is wider where less was measured, and for mixtures of experts") {
  const CommonConstants& c = place_of("H100", "megatron").common;
  ModelShape dense, experts;
  experts.num_local_experts = 8;
  const GpuType seen = shipped_constants().gpu_named("H100").value(),
                unseen = shipped_constants().gpu_named("MI300X").value();
  CHECK(prediction_spread(dense, seen, c) == c.spread_seen);
  CHECK(prediction_spread(dense, unseen, c) > prediction_spread(dense, seen, c));
  CHECK(prediction_spread(experts, seen, c) > prediction_spread(dense, seen, c));
}

TEST_CASE("the parts of a step add up to it, and none is negative") {
  const TrainingTask task = llama_task(32, 4096, 512);
  TrainingLayout layout;
  layout.dims.tp = 2, layout.dims.sp = true, layout.dims.pp = 4, layout.dims.dp_shard = 8, layout.dims.zero = 1;
  const StepTime time = step_time(task, layout, place_of("H100", "megatron")).value();
  double sum = 0;
  for (const double part : time.parts) {
    CHECK(part >= 0);
    sum += part;
  }
  CHECK(sum == testing::relative(time.seconds()));
  CHECK(time[StepPart::bubble] > 0);
  CHECK(time[StepPart::recompute] == 0);
  CHECK(time.sigma > 0);
}

TEST_CASE("a training is never faster than the peak of its GPUs") {
  const TrainingTask task = llama_task(80, 8192, 1024);
  TrainingLayout layout;
  layout.dims.tp = 8, layout.dims.sp = true, layout.dims.dp_shard = 16, layout.dims.zero = 1;
  const TrainingPlace place = place_of("H100", "megatron");
  const double use = model_flops_utilisation(task, layout, place.cluster.gpu, seconds(task, layout, place));
  CHECK(use > 0.2);
  CHECK(use < 0.7);
}

TEST_CASE("what users know of layouts holds") {
  const TrainingPlace place = place_of("H100", "megatron");
  const TrainingTask task = llama_task(32, 4096, 512);
  TrainingLayout plain;
  plain.dims.dp_shard = 64, plain.dims.zero = 1;
  const double base = seconds(task, plain, place);
  SUBCASE("recomputing whole layers costs about a third") {
    TrainingLayout again = plain;
    again.recompute.block = true;
    CHECK(seconds(task, again, place) / base > 1.2);
    CHECK(seconds(task, again, place) / base < 1.4);
    TrainingLayout half = again;
    half.recompute.layers = 16;
    CHECK(seconds(task, half, place) < seconds(task, again, place));
    CHECK(seconds(task, half, place) > base);
  }
  SUBCASE("tensor parallelism beyond a node is a bad idea") {
    TrainingLayout within = plain, beyond = plain;
    within.dims.tp = 8, within.dims.sp = true, within.dims.dp_shard = 8;
    beyond.dims.tp = 32, beyond.dims.sp = true, beyond.dims.dp_shard = 2;
    CHECK(seconds(task, beyond, place) > 1.5 * seconds(task, within, place));
  }
  SUBCASE("virtual stages shrink the bubble") {
    TrainingLayout one = plain, four = plain;
    one.dims.pp = four.dims.pp = 8, one.dims.dp_shard = four.dims.dp_shard = 8;
    four.dims.vp = 4, four.schedule = PipelineKind::interleaved;
    const TrainingTask few = llama_task(32, 4096, 128);
    CHECK(step_time(few, four, place)->parts[static_cast<int>(StepPart::bubble)] <
          0.5 * step_time(few, one, place)->parts[static_cast<int>(StepPart::bubble)]);
  }
  SUBCASE("fp8 is faster than bf16, by less than twice") {
    TrainingLayout fp8 = plain;
    fp8.precision = Precision::fp8;
    CHECK(seconds(task, fp8, place) < base);
    CHECK(seconds(task, fp8, place) > 0.5 * base);
  }
  SUBCASE("moments in the host's memory cost time") {
    TrainingLayout host = plain;
    host.offload_moments = true;
    CHECK(seconds(task, host, place) > base);
  }
}

// Any layout of a model with 24 layers that divides what it splits.
TrainingLayout random_layout(std::mt19937& random, TrainingTask& task) {
  const auto pick = [&](std::initializer_list<int> of) {
    return *(of.begin() + std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random));
  };
  TrainingLayout l;
  l.dims.tp = pick({1, 2, 4, 8}), l.dims.sp = l.dims.tp > 1 && pick({0, 1}) == 1;
  l.dims.cp = pick({1, 2}), l.dims.pp = pick({1, 2, 3, 4, 5, 8}), l.dims.dp_shard = pick({1, 2, 4});
  l.dims.zero = pick({0, 1, 3});
  if (l.dims.zero == 0) std::swap(l.dims.dp_shard, l.dims.dp_replicate);
  l.schedule = static_cast<PipelineKind>(pick({0, 1, 2}));
  if (l.schedule == PipelineKind::interleaved || (l.schedule == PipelineKind::zb_h1 && pick({0, 1}) == 1))
    l.dims.vp = pick({2, 3});
  l.micro_batch_size = pick({1, 2});
  l.recompute.block = pick({0, 1}) == 1;
  if (l.recompute.block) l.recompute.layers = pick({0, 1, 5});
  const int per_replica = l.dims.pp * pick({1, 2, 3, 7});
  task.global_batch_size = std::int64_t{l.micro_batch_size} * l.dims.dp() * per_replica;
  return l;
}

TEST_CASE("the bound is never above the simulated step") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  TrainingTask task = llama_task(24, 4096, 1);
  int compared = 0, tight = 0;
  for (int i = 0; i < 400; ++i) {
    const TrainingLayout layout = random_layout(random, task);
    const TrainingPlace place = place_of("A100", i % 2 == 0 ? "megatron" : "megatron-deepspeed");
    const auto exact = step_time(task, layout, place);
    if (!exact.ok()) continue;  // a schedule that these numbers do not allow
    const double bound = step_bound(task, layout, place).seconds();
    INFO(layout.dims.to_string() << " " << to_string(layout.schedule) << " batch " << task.global_batch_size);
    CHECK(bound <= exact->seconds() * (1 + 1e-9));
    CHECK(bound >= 0.5 * exact->seconds());
    ++compared, tight += bound > 0.97 * exact->seconds();
  }
  CHECK(compared > 200);
  CHECK(tight > compared / 3);
}

TEST_CASE("long schedules are extended, not approximated") {
  const TrainingPlace place = place_of("A100", "megatron");
  TrainingTask task = llama_task(24, 4096, 1);
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zb_h1}) {
    TrainingLayout layout;
    layout.dims.pp = 4, layout.schedule = kind, layout.dims.vp = kind == PipelineKind::interleaved ? 3 : 1;
    // Each further group of micro-batches costs the same from some number on, so three lengths lie on a line.
    const auto at = [&](int micro_batches) {
      task.global_batch_size = micro_batches;
      return seconds(task, layout, place);
    };
    const double per_four = (at(24) - at(20));
    CHECK(at(64) == testing::relative(at(24) + 10 * per_four).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace longhaul
