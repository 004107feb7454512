// The time model of serving against our own server on this machine: a Llama of random weights behind the generator that
// serves (engine/infer/generator.h), 1, 4 and 16 answers at a time. The processor stands as a "GPU" of one processor
// whose memory rate, product rate and call latency this very program measures first. Only steps in which all slots
// answer and no prompt is read are counted; the median of them.
//
//   serving_cpu [--layers 12] [--answer 48] [--threads 2]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "autotune/inference/serving_time.h"
#include "base/clock.h"
#include "engine/infer/generator.h"
#include "engine/model/inference_model.h"
#include "engine/ops/gemm.h"

namespace longhaul {
namespace {

ModelShape bench_shape(int layers) {
  ModelShape s;
  s.hidden_size = 1024, s.intermediate_size = 2816, s.num_hidden_layers = layers, s.num_attention_heads = 16;
  s.num_key_value_heads = 4, s.head_dim = 64, s.vocab_size = 16384, s.max_position_embeddings = 512;
  s.tie_word_embeddings = true;
  return s;
}

// Small numbers of both signs that depend on their place.
Tensor bench_tensor(Shape shape) {
  Tensor tensor(DType::bf16, shape);
  auto* bits = static_cast<std::uint16_t*>(static_cast<void*>(tensor.view().data()));
  for (std::int64_t i = 0; i < shape.size(); ++i)
    bits[i] = static_cast<std::uint16_t>(0x3c00 + (i * 7919) % 128 + (i * 31 % 64 < 32 ? 0x8000 : 0));
  return tensor;
}

LinearWeights bench_linear(std::int64_t out, std::int64_t in) {
  return LinearWeights(DenseWeights{bench_tensor({out, in}), {}});
}

InferenceWeights bench_weights(const ModelShape& s) {
  InferenceWeights w;
  w.dtype = DType::bf16;
  w.embedding = bench_linear(s.vocab_size, s.hidden_size);
  w.final_norm.weight = bench_tensor({s.hidden_size});
  for (int layer = 0; layer < s.num_hidden_layers; ++layer) {
    InferenceWeights::Block b;
    b.input_norm.weight = bench_tensor({s.hidden_size}), b.post_attention_norm.weight = bench_tensor({s.hidden_size});
    b.qkv = bench_linear(s.q_size() + 2 * s.kv_size(), s.hidden_size), b.o = bench_linear(s.hidden_size, s.q_size());
    b.gate_up = bench_linear(s.mlp_width(), s.hidden_size), b.down = bench_linear(s.hidden_size, s.intermediate_size);
    w.blocks.push_back(std::move(b));
  }
  return w;
}

// The engine's model for the generator, without a tokenizer.
class BenchTextModel final : public TextModel {
 public:
  BenchTextModel(InferenceModel& model, const ComputeContext& context, int slots) : model_(model), context_(context) {
    info_ = {model.shape().vocab_size, model.shape().max_position_embeddings, slots, {}};
    for (int i = 0; i < slots; ++i) caches_.push_back(model.make_cache(info_.context_length));
  }
  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view) const override { return none(); }
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>&) const override { return none(); }
  std::string token_bytes(std::int32_t) const override { return "a"; }
  void reset(int slot) override { caches_[static_cast<std::size_t>(slot)].truncate(0); }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits, std::vector<std::int32_t>&) override {
    std::vector<SequenceStep> all;
    for (const TextStep& step : steps) all.push_back({&caches_[static_cast<std::size_t>(step.slot)], step.tokens});
    logits.resize(all.size() * static_cast<std::size_t>(info_.vocabulary));
    return model_.forward(context_, all, LogitsWanted::last, logits);
  }

 private:
  static Error none() { return {ErrorCode::unsupported, "a model of random weights has no tokenizer", {}, ""}; }
  InferenceModel& model_;
  const ComputeContext& context_;
  TextModelInfo info_;
  std::vector<KvCache> caches_;
};

struct Silent final : GenerationListener {
  void on_text(const std::string&, const std::vector<GeneratedToken>&) override {}
  void on_end(FinishReason, const GenerationUsage&, const std::string&) override {}
};

// Seconds, of the wall or of this thread.
class Stopwatch {
 public:
  explicit Stopwatch(int threads) : alone_(threads == 1) {}
  double now() const {
    if (!alone_) return static_cast<double>(clock_.monotonic_ns()) * 1e-9;
    struct timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  template <class Work>
  double best(int rounds, const Work& work) const {
    double best = 1e9;
    for (int i = 0; i <= rounds; ++i) {
      const double begin = now();
      work();
      if (i > 0) best = std::min(best, now() - begin);
    }
    return best;
  }

 private:
  SystemClock clock_;
  bool alone_;
};

double product_seconds(const Stopwatch& watch, const ComputeContext& context, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  const Tensor x = bench_tensor({m, k}), w = bench_tensor({n, k});
  Tensor y(DType::bf16, {m, n});
  return watch.best(10, [&] { linear_forward(context, {m, k, n}, x, w, y.view()); });
}

// FLOP/s of products of so many rows whose weights lie in the cache: what arithmetic alone allows.
double product_rate(const Stopwatch& watch, const ComputeContext& context, std::int64_t rows) {
  return 2.0 * static_cast<double>(rows) * 1024 * 1024 / product_seconds(watch, context, rows, 1024, 1024);
}

// memchr for a byte that is not there reads as fast as the C library can.
double read_rate(const Stopwatch& watch, int threads) {
  const std::vector<char> memory(std::size_t{1} << 29, 3);
  std::size_t found = 0;
  const std::size_t each = memory.size() / static_cast<std::size_t>(threads);
  const auto read = [&](int part) {
    return std::memchr(memory.data() + static_cast<std::size_t>(part) * each, 4, each) != nullptr ? std::size_t{1} : 0;
  };
  const double seconds = watch.best(5, [&] {
    std::vector<std::thread> readers;
    std::vector<std::size_t> hits(static_cast<std::size_t>(threads));
    for (int t = 1; t < threads; ++t) readers.emplace_back([&, t] { hits[static_cast<std::size_t>(t)] = read(t); });
    found += read(0);
    for (std::thread& reader : readers) reader.join();
    for (const std::size_t hit : hits) found += hit;
  });
  if (found > 0) std::puts("a byte was found that nobody wrote");
  return static_cast<double>(memory.size()) / seconds;
}

ServingPlace measured_place(const Stopwatch& watch, const ComputeContext& context) {
  ServingPlace place;
  GpuType& cpu = place.cluster.gpu;
  cpu.key = "cpu", cpu.memory_rate = read_rate(watch, context.threads());
  cpu.peak_bf16 = product_rate(watch, context, 512);
  cpu.gemm_bf16 = 1, cpu.attention = 0.3;  // the latter assumed; contexts are short here
  place.common.memory_share = 1, place.common.expert_share = 1;
  place.common.kernel_latency = product_seconds(watch, context, 1, 64, 64);
  std::printf("measured here: %.1f GB/s read, %.0f GFLOP/s of bf16 products, %.1f us a call, %d threads\n",
              cpu.memory_rate / 1e9, cpu.peak_bf16 / 1e9, place.common.kernel_latency * 1e6, context.threads());
  return place;
}

// Seconds of a step that decodes for all slots.
double measured_step(const Stopwatch& watch, const Clock& clock, InferenceModel& model, const ComputeContext& context,
                     int slots, int answer) {
  BenchTextModel text(model, context, slots);
  Generator generator(text, clock, {slots, 1 << 20});
  std::vector<Generator::Submission> all;
  for (int i = 0; i < slots; ++i) {
    GenerationRequest request;
    request.prompt.assign(32, 100 + i);
    request.sampling.temperature = 0, request.max_tokens = answer;
    all.push_back({request, std::make_shared<Silent>()});
  }
  if (!generator.submit(std::move(all)).ok()) return 0;
  std::vector<double> seconds;
  for (bool more = true; more;) {
    const GeneratorCounters before = generator.counters();
    const double begin = watch.now();
    more = generator.step();
    const double took = watch.now() - begin;
    const GeneratorCounters after = generator.counters();
    if (after.prompt_tokens == before.prompt_tokens && after.generated_tokens - before.generated_tokens == slots)
      seconds.push_back(took);
  }
  if (seconds.empty()) return 0;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

int run(int argc, char** argv) {
  int layers = 12, answer = 48, threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    (flag == "--layers" ? layers : flag == "--answer" ? answer : threads) = std::max(1, std::atoi(argv[i + 1]));
  }
  const SystemClock clock;
  const Stopwatch watch(threads);
  const ComputeContext context(threads);
  const ModelShape shape = bench_shape(layers);
  ServingPlace place = measured_place(watch, context);
  InferenceModel model(shape, bench_weights(shape));
  std::printf("%.0f MB of weights in bf16\n", 2e-6 * static_cast<double>(shape.parameter_count()));
  std::printf("%5s %22s %14s %14s %20s\n", "slots", "products of as many rows", "predicted", "measured",
              "time over predicted");
  for (const int slots : {1, 4, 16}) {
    // Unlike a GPU's, a core's rate depends on the rows from the first one on.
    place.cluster.gpu.peak_bf16 = product_rate(watch, context, slots);
    const double predicted =
        serving_step_time(shape, {}, place, {static_cast<double>(slots), 32.0 + answer / 2.0, 0, 0, 0}).total();
    const double measured = measured_step(watch, clock, model, context, slots, answer);
    if (measured <= 0) return std::puts("no step was measured"), 1;
    std::printf("%5d %15.0f GFLOP/s %10.1f t/s %10.1f t/s %20.2f\n", slots, place.cluster.gpu.peak_bf16 / 1e9,
                slots / predicted, slots / measured, measured / predicted);
  }
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::run(argc, argv);
}
