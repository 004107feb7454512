#include "tests/gpu/bench/bench_generation.h"

#include <algorithm>
#include <chrono>

#include "base/text/text.h"
#include "engine/model/inference/inference_model.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul::gpu_bench {
namespace {

// Weights as a folder's would lie there; what they are does not matter to the time.
InferenceWeights filled_weights(const ComputeContext& context, const ModelShape& s) {
  InferenceWeights weights;
  weights.dtype = DType::bf16;
  weights.memory = std::make_unique<MemoryAccount>();
  weights.memory->device = context.device();
  const auto tensor = [&](Shape shape, float value) {
    Tensor made(DType::bf16, shape, weights.memory.get());
    fill(context, made, value);
    return made;
  };
  const auto matrix = [&](std::int64_t out, std::int64_t in) {
    return LinearWeights(DenseWeights{tensor({out, in}, 0.0009765625F), {}});
  };
  const auto norm = [&] { return NormWeights{tensor({s.hidden_size}, 1.0F), {}}; };
  weights.embedding = matrix(s.vocab_size, s.hidden_size);
  for (std::int64_t layer = 0; layer < s.num_hidden_layers; ++layer) {
    InferenceWeights::Block block;
    block.input_norm = norm(), block.post_attention_norm = norm();
    block.qkv = matrix(s.q_size() + 2 * s.kv_size(), s.hidden_size);
    block.o = matrix(s.hidden_size, s.q_size());
    block.gate_up = matrix(s.mlp_width(), s.hidden_size);
    block.down = matrix(s.hidden_size, s.intermediate_size);
    weights.blocks.push_back(std::move(block));
  }
  weights.final_norm = norm();
  if (!s.tie_word_embeddings) weights.output = matrix(s.vocab_size, s.hidden_size);
  return weights;
}

// Every step at the same length, so that all are alike; the median of them.
double seconds_a_step(InferenceModel& model, const ComputeContext& context, KvCache& cache, const DecodeBench& bench) {
  const std::int32_t token = 1;
  std::vector<float> logits(static_cast<std::size_t>(bench.shape.vocab_size));
  std::vector<double> times;
  constexpr int warm_up = 3;
  for (int i = 0; i < warm_up + bench.steps; ++i) {
    cache.truncate(bench.context);
    const SequenceStep step{&cache, {&token, 1}};
    const auto begun = std::chrono::steady_clock::now();
    const Status done = model.forward(context, {&step, 1}, LogitsWanted::last, logits);
    LH_ASSERT(done.ok(), done.ok() ? "" : done.error().message());
    if (i >= warm_up) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

std::vector<BenchEntry> measure_decode(Gpu& gpu, const DecodeBench& bench) {
  const ComputeContext context(gpu.device(), gpu.ops());
  InferenceModel model(bench.shape, filled_weights(context, bench.shape));
  KvCache cache = model.make_cache(bench.context + 1);
  cache.advance(bench.context);
  const ModelShape& s = bench.shape;
  const std::int64_t looked_up = s.tie_word_embeddings ? 0 : (s.vocab_size - 1) * s.hidden_size * 2;  // one row is read
  const auto bytes =
      static_cast<double>(model.weights().bytes() - looked_up + KvCache::bytes_for(s, bench.context + 1, DType::bf16));
  std::vector<BenchEntry> entries;
  for (const bool graphs : {false, true}) {
    model.use_graphs(graphs);
    const double seconds = seconds_a_step(model, context, cache, bench);
    entries.push_back({format("decode of {}, batch 1, {} tokens/s, {}", bench.name, static_cast<int>(1 / seconds),
                              graphs ? "graphs" : "no graphs"),
                       seconds, bytes, 0, graphs ? bench.bar : 0});
  }
  return entries;
}

std::vector<BenchEntry> decode_of_8b(Gpu& gpu) {
  DecodeBench bench{"8B, bf16", {}, 1024, 50, 0.75};
  ModelShape& s = bench.shape;
  s.vocab_size = 128256, s.hidden_size = 4096, s.intermediate_size = 14336, s.num_hidden_layers = 32;
  s.num_attention_heads = 32, s.num_key_value_heads = 8, s.head_dim = 128, s.max_position_embeddings = 8192;
  s.tie_word_embeddings = false;
  return measure_decode(gpu, bench);
}

}  // namespace longhaul::gpu_bench
