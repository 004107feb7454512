#include "autotune/inference/serving_memory.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace longhaul {
namespace {

ModelShape served_shape(const char* architecture, int hidden, int inner, int layers, int heads, int kv_heads) {
  ModelShape shape;
  shape.architecture = architecture;
  shape.hidden_size = hidden, shape.intermediate_size = inner, shape.num_hidden_layers = layers;
  shape.num_attention_heads = heads, shape.num_key_value_heads = kv_heads, shape.head_dim = hidden / heads;
  shape.vocab_size = 32000, shape.max_position_embeddings = 8192, shape.tie_word_embeddings = false;
  return shape;
}

ModelShape llama_70b_served() {
  ModelShape shape = served_shape("llama", 8192, 28672, 80, 64, 8);
  shape.vocab_size = 128256;
  return shape;
}

GpuType gpu_of(double gigabytes) {
  GpuType gpu;
  gpu.key = "test", gpu.memory = gigabytes * 1e9, gpu.peak_bf16 = 1e15, gpu.gemm_bf16 = 0.7, gpu.memory_rate = 3e12;
  return gpu;
}

TEST_CASE("weights in bf16 are two bytes a parameter, tied or not, dense or of experts") {
  ModelShape shape = served_shape("llama", 1024, 2816, 6, 16, 4);
  const auto bytes = [&] { return serving_weight_bytes(shape, WeightFormat::bf16, 1); };
  CHECK(bytes() == doctest::Approx(2.0 * static_cast<double>(shape.parameter_count())));
  shape.tie_word_embeddings = true;
  CHECK(bytes() == doctest::Approx(2.0 * static_cast<double>(shape.parameter_count())));
  shape.architecture = "mixtral", shape.num_local_experts = 8, shape.moe_intermediate_size = 2816;
  CHECK(bytes() == doctest::Approx(2.0 * static_cast<double>(shape.parameter_count())));
  CHECK(serving_weight_bytes(shape, WeightFormat::f32, 1) == doctest::Approx(2 * bytes()));
}

TEST_CASE("scales count: per output channel in int8, per 128 inputs in int4, per 16 in fp4") {
  CHECK(matrix_bytes(WeightFormat::int8, 10, 256) == 10 * 256 + 10 * 4);
  CHECK(matrix_bytes(WeightFormat::int4, 10, 256) == 10 * (128 + 2 * 2));
  CHECK(matrix_bytes(WeightFormat::int4, 10, 130) == 10 * (65 + 2 * 2));  // the last group is short
  CHECK(matrix_bytes(WeightFormat::fp4, 10, 256) == 10 * (128 + 16));
  CHECK(matrix_bytes(WeightFormat::fp8, 10, 256) == 2560);
}

TEST_CASE("a group of GPUs splits everything but norms, and repeats key and value heads that are too few") {
  const ModelShape shape = llama_70b_served();
  const double one = serving_weight_bytes(shape, WeightFormat::bf16, 1), norms = (2 * 80 + 1) * 8192 * 2.0;
  CHECK(serving_weight_bytes(shape, WeightFormat::bf16, 8) == doctest::Approx((one - norms) / 8 + norms));
  // 16 GPUs for 8 heads: every GPU has one, as with 8.
  CHECK(kv_heads_per_gpu(shape, 8) == 1);
  CHECK(kv_heads_per_gpu(shape, 16) == 1);
  const double repeated = 80 * 2 * 128 * 8192 * 2.0 * 0.5;  // half of each GPU's keys and values
  CHECK(serving_weight_bytes(shape, WeightFormat::bf16, 16) ==
        doctest::Approx((one - norms) / 16 + norms + repeated).epsilon(1e-6));
}

TEST_CASE("a token of Llama-3 70B takes 320 KiB of cache in bf16, half of it in fp8, an eighth on each of 8 GPUs") {
  const ModelShape shape = llama_70b_served();
  const ServingTask task;
  ServingLayout layout;
  const auto token = [&] { return serving_memory(shape, task, layout, gpu_of(640)).cache_token; };
  CHECK(token() == 320 * 1024);
  layout.cache = CacheFormat::fp8;
  CHECK(token() == 160 * 1024);
  layout.tp = 8;
  CHECK(token() == 20 * 1024);
  layout.cache = CacheFormat::int8;  // a four-byte scale beside the 128 numbers of a head
  CHECK(token() == doctest::Approx(20 * 1024 * 132.0 / 128));
}

TEST_CASE("the slots that are said to fit do, and one more does not") {
  const std::uint64_t seed = testing::seed(20261123);
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const ModelShape shape = llama_70b_served();
  int some = 0;
  for (int i = 0; i < 200; ++i) {
    ServingTask task;
    task.prompt_tokens = 1 + static_cast<int>(random() % 4000),
    task.answer_tokens = 1 + static_cast<int>(random() % 4000);
    task.memory_reserve = static_cast<double>(random() % 20) / 100;
    ServingLayout layout;
    layout.tp = 1 << (random() % 4), layout.block = 16 << (random() % 3), layout.chunk = 256 << (random() % 6);
    layout.weights = all_weight_formats()[1 + random() % 5], layout.cache = all_cache_formats()[1 + random() % 3];
    const GpuType gpu = gpu_of(static_cast<double>(40 + random() % 160));
    layout.slots = slots_that_fit(shape, task, layout, gpu);
    const auto bytes = [&](int slots) {
      ServingLayout with = layout;
      with.slots = slots;
      const ServingMemory m = serving_memory(shape, task, with, gpu);
      const std::int64_t blocks = (task.context() + layout.block - 1) / layout.block * slots;
      return m.held() + static_cast<double>(blocks * layout.block) * m.cache_token;
    };
    CAPTURE(layout.slots);
    if (layout.slots > 0) CHECK(bytes(layout.slots) <= gpu.memory);
    if (layout.slots < task.slots_max) CHECK(bytes(layout.slots + 1) > gpu.memory);
    some += layout.slots > 0 && layout.slots < task.slots_max;
  }
  CHECK(some > 20);
}

}  // namespace
}  // namespace longhaul
