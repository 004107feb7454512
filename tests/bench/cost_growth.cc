// Does a step cost what it should? Time a token over the size of the global batch must be flat, and time a step over
// the number of layers a straight line. A bf16 model (hidden 384, six heads, vocabulary 4096, sequences of 256), one
// thread, its processor time, the best of several steps. usage: cost_growth [--steps n]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/train/step/trainer.h"

using namespace longhaul;

namespace {

constexpr std::int64_t length = 256, micro_batch = 4;

ModelShape shape_of(int layers) {
  ModelShape shape;
  shape.vocab_size = 4096, shape.hidden_size = 384, shape.intermediate_size = 1024, shape.num_hidden_layers = layers;
  shape.num_attention_heads = 6, shape.num_key_value_heads = 6, shape.head_dim = 64;
  shape.max_position_embeddings = length;
  return shape;
}

class MadeUpTokens final : public BatchSource {
 public:
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    out.sequences = count, out.length = length;
    out.ids.clear(), out.targets.clear();
    for (std::int64_t i = 0; i < count * length; ++i) {
      out.ids.push_back(static_cast<std::int32_t>((first * 31 + i * i) % 4093));
      out.targets.push_back(static_cast<std::int32_t>((first * 7 + i) % 4093));
    }
    out.weights.assign(out.ids.size(), 1.0F);
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 1 << 20; }
};

double processor_seconds() {
  struct timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Seconds of the quickest step but the first.
Result<double> step_seconds(int layers, std::int64_t global_batch, int steps) {
  const ComputeContext context(1);
  Mesh alone;
  ParameterStore store(shape_of(layers), DType::bf16);
  initialize_parameters(context, store, 1);
  store.refresh_compute_copy(context);
  TrainerOptions options;
  options.steps = 1000, options.micro_batch_size = micro_batch, options.global_batch_size = global_batch;
  options.tokens_max = micro_batch * length;
  LlamaOptions model_options;
  model_options.tokens_max = options.tokens_max;
  Llama model(store, model_options);
  MadeUpTokens source;
  LanguageModelObjective objective;
  Trainer trainer(context, alone, store, {&model}, objective, source, options);
  double best = 1e9;
  for (int step = 0; step <= steps; ++step) {
    const double begin = processor_seconds();
    LH_TRY(const StepReport report, trainer.step());
    if (!std::isfinite(report.loss)) return make_error(ErrorCode::internal, "the loss is no number");
    if (step > 0) best = std::min(best, processor_seconds() - begin);
  }
  return best;
}

// Largest distance of a rate from the middle of the smallest and the largest, as a share of that.
double spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / (*high + *low);
}

Result<double> batch_growth(int steps) {
  std::printf("4 layers; micro-batches of %lld sequences\n%14s %12s %12s\n", static_cast<long long>(micro_batch),
              "global batch", "ms a step", "us a token");
  std::vector<double> per_token;
  for (const std::int64_t batch : {8, 16, 32, 64, 128}) {
    LH_TRY(const double seconds, step_seconds(4, batch, steps));
    per_token.push_back(seconds / static_cast<double>(batch * length));
    std::printf("%14lld %12.1f %12.2f\n", static_cast<long long>(batch), seconds * 1e3, per_token.back() * 1e6);
    std::fflush(stdout);
  }
  return spread(per_token);
}

// Largest distance from the least-squares line, as a share of the measured time.
Result<double> layer_growth(int steps) {
  std::printf("\nglobal batch 8\n%14s %12s\n", "layers", "ms a step");
  const std::vector<int> layers = {2, 4, 8, 12, 16, 24};
  std::vector<double> seconds;
  for (const int count : layers) {
    LH_TRY(const double value, step_seconds(count, 8, steps));
    seconds.push_back(value);
    std::printf("%14d %12.1f\n", count, value * 1e3);
    std::fflush(stdout);
  }
  const auto n = static_cast<double>(layers.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    x += layers[i], y += seconds[i], xx += layers[i] * layers[i], xy += layers[i] * seconds[i];
  const double slope = (n * xy - x * y) / (n * xx - x * x), base = (y - slope * x) / n;
  double worst = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    worst = std::max(worst, std::abs(base + slope * layers[i] - seconds[i]) / seconds[i]);
  std::printf("%.1f ms and %.1f ms a layer\n", base * 1e3, slope * 1e3);
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 4;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--steps") == 0) steps = std::max(1, std::atoi(argv[i + 1]));
  const auto batch = batch_growth(steps), layers = batch.ok() ? layer_growth(steps) : batch;
  if (!layers.ok()) {
    std::fprintf(stderr, "cost_growth: %s\n", layers.error().message().c_str());
    return 1;
  }
  const bool holds = *batch <= 0.10 && *layers <= 0.10;
  std::printf(
      "\ntime a token over the global batch: +-%.1f %% (bar: 10); off a straight line over layers: at most "
      "%.1f %% (bar: 10): %s\n",
      *batch * 100, *layers * 100, holds ? "holds" : "MISSED");
  return holds ? 0 : 1;
}
