// Forecasts of our own server on the machine at hand beside the server itself, made as `longhaul plan` makes them: the
// processor is measured for some seconds (engine/tasks/commands/measure_processor.h), its constants are fitted, and a
// step is forecast from them (autotune/inference/processor_serving.h). Then models of random weights answer behind the
// generator that serves (engine/infer/generate/generator.h). Measured are the median of the steps in which all slots
// answer and no prompt is read, and of those that read one prompt. Nothing of what is measured here goes into the
// forecast.
//
//   serving_cpu --constants autotune/constants.toml [--threads 2] [--precision bf16] [--answer 48] [--quick 1]
//               [--model 1] [--parts 1]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "autotune/calibrate/processor_constants.h"
#include "autotune/inference/serving_time.h"
#include "autotune/time/processor_place.h"
#include "base/files/files.h"
#include "base/system/clock.h"
#include "engine/infer/generate/generator.h"
#include "engine/model/inference/inference_model.h"
#include "engine/tasks/commands/measure_processor.h"

namespace longhaul {
namespace {

constexpr double bar = 0.2;

// One thread is timed by its own processor time, so that who else computes meanwhile counts for less.
class BenchClock final : public Clock {
 public:
  explicit BenchClock(bool own_time) : own_time_(own_time) {}
  std::int64_t wall_ms() const override { return clock_.wall_ms(); }
  std::int64_t monotonic_ns() const override {
    if (!own_time_) return clock_.monotonic_ns();
    struct timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
  }
  void sleep_ms(std::int64_t ms) override { clock_.sleep_ms(ms); }

 private:
  bool own_time_;
  SystemClock clock_;
};

struct BenchModel {
  const char* name;
  std::int64_t hidden, inner, layers, heads, kv_heads, vocabulary;
};
// Weights that a core's cache holds, that a processor's does, and that come from memory. What is timed was chosen with
// the first two in view; the others, and eight answers, were not looked at before.
constexpr BenchModel bench_models[] = {{"1 M (the quickstart's)", 128, 384, 4, 4, 4, 3072},
                                       {"12 M", 384, 1024, 6, 6, 2, 4096},
                                       {"170 M", 1024, 2816, 12, 16, 4, 16384},
                                       {"5 M", 256, 768, 4, 4, 2, 8192},
                                       {"48 M", 640, 1792, 8, 10, 5, 12288}};

ModelShape bench_shape(const BenchModel& m) {
  ModelShape s;
  s.hidden_size = m.hidden, s.intermediate_size = m.inner, s.num_hidden_layers = m.layers;
  s.num_attention_heads = m.heads, s.num_key_value_heads = m.kv_heads, s.head_dim = m.hidden / m.heads;
  s.vocab_size = m.vocabulary, s.max_position_embeddings = 512, s.tie_word_embeddings = true;
  return s;
}

// Small numbers of both signs that depend on their place.
Tensor bench_tensor(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  auto* bits = static_cast<std::byte*>(tensor.view().data());
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const auto upper = static_cast<std::uint16_t>(0x3c00 + (i * 7919) % 128 + (i * 31 % 64 < 32 ? 0x8000 : 0));
    const auto whole = static_cast<std::uint32_t>(upper) << 16;
    if (dtype == DType::bf16)
      std::memcpy(bits + 2 * i, &upper, 2);
    else
      std::memcpy(bits + 4 * i, &whole, 4);
  }
  return tensor;
}

InferenceWeights bench_weights(const ModelShape& s, DType dtype) {
  const auto vector = [&] { return bench_tensor(dtype, {s.hidden_size}); };
  const auto linear = [&](std::int64_t out, std::int64_t in) {
    return LinearWeights(DenseWeights{bench_tensor(dtype, {out, in}), {}});
  };
  InferenceWeights w;
  w.dtype = dtype;
  w.embedding = linear(s.vocab_size, s.hidden_size);
  w.final_norm.weight = vector();
  for (int layer = 0; layer < s.num_hidden_layers; ++layer) {
    InferenceWeights::Block b;
    b.input_norm.weight = vector(), b.post_attention_norm.weight = vector();
    b.qkv = linear(s.q_size() + 2 * s.kv_size(), s.hidden_size), b.o = linear(s.hidden_size, s.q_size());
    b.gate_up = linear(s.mlp_width(), s.hidden_size), b.down = linear(s.hidden_size, s.intermediate_size);
    w.blocks.push_back(std::move(b));
  }
  return w;
}

// The engine's model for the generator, without a tokenizer.
class BenchTextModel final : public TextModel {
 public:
  BenchTextModel(InferenceModel& model, const ComputeContext& context, const Clock& clock, int slots)
      : model_(model), context_(context), clock_(clock) {
    info_ = {model.shape().vocab_size, model.shape().max_position_embeddings, slots, {}};
    for (int i = 0; i < slots; ++i) caches_.push_back(model.make_cache(info_.context_length));
  }
  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view) const override { return none(); }
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>&, const Value&) const override {
    return none();
  }
  std::string token_bytes(std::int32_t) const override { return "a"; }
  void reset(int slot) override { caches_[static_cast<std::size_t>(slot)].truncate(0); }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits, std::vector<std::int32_t>&) override {
    std::vector<SequenceStep> all;
    for (const TextStep& step : steps) all.push_back({&caches_[static_cast<std::size_t>(step.slot)], step.tokens});
    logits.resize(all.size() * static_cast<std::size_t>(info_.vocabulary));
    const std::int64_t begin = clock_.monotonic_ns();
    Status done = model_.forward(context_, all, LogitsWanted::last, logits);
    forward_ns_ = clock_.monotonic_ns() - begin;
    return done;
  }
  double forward_seconds() const { return static_cast<double>(forward_ns_) * 1e-9; }  // of the last step

 private:
  static Error none() { return {ErrorCode::unsupported, "a model of random weights has no tokenizer", {}, ""}; }
  InferenceModel& model_;
  const ComputeContext& context_;
  const Clock& clock_;
  std::int64_t forward_ns_ = 0;
  TextModelInfo info_;
  std::vector<KvCache> caches_;
};

struct Silent final : GenerationListener {
  void on_text(const std::string&, const std::vector<GeneratedToken>&) override {}
  void on_end(FinishReason, const GenerationUsage&, const std::string&) override {}
};

double middle(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

// A step's products alone, one after the other as the model has them.
double measured_products(const Clock& clock, const InferenceWeights& w, const ComputeContext& context,
                         std::int64_t rows) {
  const Tensor x = bench_tensor(w.dtype, {rows, 4096});
  Tensor y(w.dtype, {rows, 8192}), logits(DType::f32, {rows, w.embedding.out()});
  std::vector<double> seconds;
  for (int i = 0; i < 24; ++i) {
    const std::int64_t begin = clock.monotonic_ns();
    for (const InferenceWeights::Block& b : w.blocks)
      for (const LinearWeights* one : {&b.qkv, &b.o, &b.gate_up, &b.down}) one->apply(context, rows, x, y.view());
    w.output_weights().apply(context, rows, x, logits.view());
    seconds.push_back(static_cast<double>(clock.monotonic_ns() - begin) * 1e-9);
  }
  return middle(seconds);
}

struct BenchTimes {
  double decode = 0, prompt = 0;  // seconds of a step
  double drawing = 0;             // of a decoding one, what is not the model's: draws, and who is next
};

struct BenchLoad {
  int slots = 1, prompt = 32, answer = 48;
};

BenchTimes measured_steps(const Clock& clock, InferenceModel& model, const ComputeContext& context,
                          const BenchLoad& load) {
  BenchTextModel text(model, context, clock, load.slots);
  Generator generator(text, clock, {load.slots, 1 << 20});
  std::vector<Generator::Submission> all;
  for (int i = 0; i < load.slots; ++i) {
    GenerationRequest request;
    request.prompt.assign(static_cast<std::size_t>(load.prompt), 100 + i);
    request.max_tokens = load.answer;
    all.push_back({request, std::make_shared<Silent>()});
  }
  if (!generator.submit(std::move(all)).ok()) return {};
  std::vector<double> decodes, prompts, drawings;
  for (bool more = true; more;) {
    const GeneratorCounters before = generator.counters();
    const std::int64_t begin = clock.monotonic_ns();
    more = generator.step();
    const double took = static_cast<double>(clock.monotonic_ns() - begin) * 1e-9;
    const GeneratorCounters after = generator.counters();
    const auto read = after.prompt_tokens - before.prompt_tokens;
    if (read == load.prompt && load.slots == 1) prompts.push_back(took);
    if (read == 0 && after.generated_tokens - before.generated_tokens == load.slots)
      decodes.push_back(took), drawings.push_back(took - text.forward_seconds());
  }
  return {middle(decodes), middle(prompts), middle(drawings)};
}

struct Score {
  int rows = 0, met = 0;
  void print(const char* model, const char* what, const ServingStepTime& parts, double measured, double drawing = 0,
             double products = 0) {
    const double forecast = parts.total(), ratio = forecast / measured;
    const bool within = std::abs(ratio - 1) <= bar;
    ++rows, met += within;
    std::printf("%-24s %-28s %9.3f %9.3f %6.2f   %-6s (products %.0f %%, attention %.0f, small %.0f, draws %.0f)\n",
                model, what, 1e3 * forecast, 1e3 * measured, ratio, within ? "met" : "MISSED",
                100 * parts.products / forecast, 100 * parts.attention / forecast, 100 * parts.streams / forecast,
                100 * parts.host / forecast);
    if (drawing > 0)
      std::printf("%-53s products %.3f, %.3f; rest of the model %.3f, %.3f; draws %.3f, %.3f\n",
                  "  forecast, measured, ms:", 1e3 * parts.products, 1e3 * products,
                  1e3 * (forecast - parts.host - parts.products), 1e3 * (measured - drawing - products),
                  1e3 * parts.host, 1e3 * drawing);
    std::fflush(stdout);
  }
};

struct Bench {
  int threads = 1, answer = 48;
  bool parts = false;
  Precision precision = Precision::bf16;
  ServingPlace place;

  Status look_at_the_machine(const Clock& clock, const std::string& constants) {
    MeasureOptions options;
    options.threads = threads, options.precision = to_string(precision);
    LH_TRY(const ProcessorSpeed speed, measure_processor(options, clock));
    LH_TRY(const std::string text, read_file(constants));
    LH_TRY(const ConstantTable shipped, ConstantTable::parse(text, constants));
    LH_TRY(const ProcessorConstants fitted, processor_constants(shipped, speed));
    LH_TRY(const ConstantTable table, ConstantTable::parse(shipped.to_toml() + "\n" + fitted.section, "measured"));
    LH_TRY(const TimeConstants all, make_time_constants(table));
    LH_TRY(const TrainingPlace rank, processor_place(all, threads, 1, precision));
    place.cluster = rank.cluster, place.common = rank.common, place.serving = all.serving;
    place.attention_scale = rank.framework.attention_scale;
    place.processor = processor_serving(all, threads, precision);
    std::printf("%s, %s, %d threads, %s, measured in %.1f s; weights from memory: %.1f GB/s by products of one row\n",
                speed.identity.processor.c_str(), speed.identity.kernels.c_str(), threads, to_string(precision),
                speed.spent_seconds,
                1e-9 * (precision == Precision::f32 ? 4 : 2) /
                    place.processor.products[(std::size(serving_sets) - 1) * std::size(serving_rows)].seconds);
    if (parts) print_parts();
    return {};
  }

  // What each operation was timed at, which forecasts are put together from.
  void print_parts() const {
    const ServingSpeed& s = place.processor;
    std::printf("ps a weight, by rows and MiB of weights\n%8s", "");
    for (const std::int64_t rows : serving_rows) std::printf(" %7lld", static_cast<long long>(rows));
    for (std::size_t i = 0; i < s.products.size(); ++i) {
      if (i % std::size(serving_rows) == 0)
        std::printf("\n%8lld", static_cast<long long>(s.products[i].set_bytes >> 20));
      std::printf(" %7.1f", 1e12 * s.products[i].seconds);
    }
    std::printf(
        "\nns: call %.0f, layer %.0f, element %.3f, attention %.3f, caches %.3f %.3f %.3f, of a prompt %.4f, logit "
        "%.2f\n",
        1e9 * s.call, 1e9 * s.layer, 1e9 * s.element, 1e9 * s.attention, 1e9 * s.cache_near, 1e9 * s.cache_shared,
        1e9 * s.cache_far, 1e9 * s.prompt_attention, 1e9 * s.logit);
  }

  void walk(const Clock& clock, const BenchModel& which, Score& score) {
    const ModelShape shape = bench_shape(which);
    const ComputeContext context(threads);
    const bool f32 = precision == Precision::f32;
    const InferenceWeights weights = bench_weights(shape, f32 ? DType::f32 : DType::bf16);
    InferenceModel model(shape, bench_weights(shape, f32 ? DType::f32 : DType::bf16));
    ServingLayout layout;
    layout.weights = f32 ? WeightFormat::f32 : WeightFormat::bf16;
    layout.cache = f32 ? CacheFormat::f32 : CacheFormat::bf16;
    const auto forecast = [&](const StepWork& work) { return serving_step_time(shape, layout, place, work); };
    for (const BenchLoad load :
         {BenchLoad{1, 32, answer}, {4, 32, answer}, {16, 32, answer}, {4, 400, answer}, {8, 32, answer}}) {
      const double context_seen = load.prompt + load.answer / 2.0;
      const BenchTimes times = measured_steps(clock, model, context, load);
      const std::string what = std::to_string(load.slots) + " answers, context " + std::to_string(int(context_seen));
      score.print(which.name, what.c_str(), forecast({double(load.slots), context_seen, 0, 0, 0}), times.decode,
                  parts ? times.drawing : 0, parts ? measured_products(clock, weights, context, load.slots) : 0);
    }
    std::vector<double> prompts;
    for (int i = 0; i < 7; ++i) prompts.push_back(measured_steps(clock, model, context, {1, 192, 2}).prompt);
    score.print(which.name, "a prompt of 192", forecast({0, 0, 192, 96, 1}), middle(prompts));
  }
};

int run(int argc, char** argv) {
  Bench bench;
  std::string constants;
  bool quick = false;
  int only = -1;  // of bench_models
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--constants") constants = value;
    if (flag == "--threads") bench.threads = std::max(1, std::atoi(value.c_str()));
    if (flag == "--answer") bench.answer = std::max(2, std::atoi(value.c_str()));
    if (flag == "--precision") bench.precision = value == "f32" ? Precision::f32 : Precision::bf16;
    if (flag == "--quick") quick = value != "0";
    if (flag == "--parts") bench.parts = value != "0";
    if (flag == "--model") only = std::atoi(value.c_str());
  }
  const BenchClock clock(bench.threads == 1);
  if (const Status looked = bench.look_at_the_machine(clock, constants); !looked.ok())
    return std::fprintf(stderr, "%s\n", looked.error().message().c_str()), 1;
  std::printf("%-24s %-28s %9s %9s %6s   bar: within %.0f %%\n", "model", "step", "forecast", "measured", "ratio",
              100 * bar);
  Score score;
  for (const BenchModel& model : bench_models) {
    if (only < 0 || &model == &bench_models[only]) bench.walk(clock, model, score);
    if (quick) break;
  }
  std::printf("%d of %d within the bar\n", score.met, score.rows);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::run(argc, argv);
}
