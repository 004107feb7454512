// Whole training steps of GPT-2 124M by the product's trainer, on fixed tokens in memory, and the matrix products of
// the same step alone. Prints one JSON line a measurement; gpt2_speed.py runs it beside its peers.
//
// usage: gpt2_speed train   --batch B --length T [--threads n] [--ranks r] [--steps s] [--precision bf16|f32]
//                         [--level portable|avx2|avx512|avx512_bf16|amx|best]
//        gpt2_speed ceiling --batch B --length T [--threads n] [--rounds r]
//        gpt2_speed save    --batch B --length T [--threads n] [--rounds r] [--steps s] [--folder F] [--direct 0|1]
// train with r > 1: the ranks are threads of this process, replicas that share the optimizer (ZeRO-1), n threads each.
// --level: the instructions that the engine uses; below `best` it does without oneDNN
// (engine/core/tensor/compute_context.h).
// --model: a recipe's [model] instead of GPT-2 124M (workflows/recipes/quickstart-tiny.toml), with --vocabulary v.
// save: what a save every s steps costs the throughput, checkpoints below F.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/comm/threads_communicator.h"
#include "engine/train/step/trainer.h"
#include "tests/bench/gpt2_speed/fixed_tokens.h"
#include "tests/bench/gpt2_speed/gemm_ceiling.h"

using namespace longhaul;
using namespace longhaul::bench;

namespace {

struct Settings {
  std::int64_t batch = 8, length = 512;
  int threads = 2, ranks = 1, steps = 5, rounds = 5, direct = 1;
  std::string folder = "/tmp";
  ModelShape shape = gpt2_124m();
  DType dtype = DType::bf16;
  CpuLevel level = CpuLevel::best;
};

struct Measured {
  std::vector<double> seconds, processor_seconds;  // of each step but the first; the second summed over all threads
  double first_loss = 0, last_loss = 0;
};

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "gpt2_speed: %s\n", error.message().c_str());
  std::exit(1);
}

// Of the whole process: on a machine with neighbours the number to look at, with one thread.
double processor_seconds() {
  struct timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// One rank's training, from made-up weights.
class Training {
 public:
  Training(const Settings& s, Mesh& mesh)
      : context_(s.threads, s.level),
        shape_(s.shape),
        store_(shape_, s.dtype, nullptr, MeshPlace{mesh.dims(), mesh.at()}),
        source_(s.batch, s.length, shape_.vocab_size) {
    TrainerOptions options;
    options.optimizer.lr = 1e-4, options.optimizer.weight_decay = 0.1, options.optimizer.clip_grad = 1.0;
    options.steps = 1000, options.global_batch_size = s.batch, options.micro_batch_size = s.batch / mesh.dims().dp();
    options.tokens_max = options.micro_batch_size * s.length;
    LlamaOptions model_options = stage_options(training_schedules(options, mesh).value(), options, mesh, 0);
    model_options.tokens_max = options.tokens_max;
    model_.emplace(store_, model_options);
    trainer_.emplace(context_, mesh, store_, std::vector<Llama*>{&*model_}, objective_, source_, options);
    initialize_parameters(context_, store_, 1);
    store_.refresh_compute_copy(context_);
  }
  const ComputeContext& context() const { return context_; }
  const ParameterLayout& layout() const { return store_.layout(); }
  StepReport step() {
    const auto report = trainer_->step();
    if (!report.ok()) fail(report.error());
    return *report;
  }
  TrainingState state() {
    TrainingState state;
    state.layout = &store_.layout(), state.shape = shape_, state.extra = Value::make_table();
    state.masters = store_.masters();
    state.exp_avg = trainer_->optimizer().exp_avg(), state.exp_avg_sq = trainer_->optimizer().exp_avg_sq();
    state.progress = trainer_->progress();
    return state;
  }

 private:
  const ComputeContext context_;
  const ModelShape shape_;
  ParameterStore store_;
  FixedTokens source_;
  LanguageModelObjective objective_;
  std::optional<Llama> model_;
  std::optional<Trainer> trainer_;
};

Measured train(const Settings& s, Mesh& mesh) {
  const SystemClock clock;
  Training training(s, mesh);
  Measured measured;
  for (int step = 0; step <= s.steps; ++step) {
    const std::int64_t begin = clock.monotonic_ns();
    const double processor_begin = processor_seconds();
    const StepReport report = training.step();
    if (step == 0) measured.first_loss = report.loss;
    if (step > 0) {
      measured.seconds.push_back(static_cast<double>(clock.monotonic_ns() - begin) * 1e-9);
      measured.processor_seconds.push_back(processor_seconds() - processor_begin);
    }
    measured.last_loss = report.loss;
  }
  return measured;
}

// Blocks of `steps` steps in turn without a save and with one that begins with the block, as the product's loop does it
// (engine/train/loop/training_loop.h).
int save(const Settings& s) {
  const SystemClock clock;
  Mesh alone;
  CollectiveGroup group;
  Training training(s, alone);
  const std::string folder = format("{}/longhaul-gpt2-save-{}", s.folder, ::getpid());
  const CheckpointStore store(clock, folder, 1);
  CheckpointSaverOptions options;
  options.compute = &training.context(), options.direct_io = s.direct != 0;
  CheckpointSaver saver(clock, store, options);
  if (const Status reserved = saver.reserve(training.layout(), training.state().types()); !reserved.ok())
    fail(reserved.error());
  training.step();
  std::vector<double> without, with, processor_without, processor_with;
  std::int64_t saved_steps = 0;
  const auto block = [&](bool saves) {
    const std::int64_t begin = clock.monotonic_ns();
    const double processor_begin = processor_seconds();
    if (saves)
      if (const Status started = saver.start(group, training.state()); !started.ok()) fail(started.error());
    for (int step = 0; step < s.steps; ++step) {
      training.step();
      if (!saver.busy()) continue;
      ++saved_steps;
      if (!saver.ready()) continue;
      if (const auto whole = saver.advance(group); !whole.ok()) fail(whole.error());
    }
    if (saver.busy())
      if (const auto whole = saver.finish(group); !whole.ok()) fail(whole.error());
    (saves ? with : without).push_back(static_cast<double>(clock.monotonic_ns() - begin) * 1e-9);
    (saves ? processor_with : processor_without).push_back(processor_seconds() - processor_begin);
  };
  for (int round = 0; round < s.rounds; ++round) block(false), block(true);
  [[maybe_unused]] const Status removed = remove_tree(folder);
  const auto best = [](const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); };
  const double cost = best(with) / best(without) - 1, processor = best(processor_with) / best(processor_without) - 1;
  std::printf(
      "a save every %d steps%s, B=%lld T=%lld, %d threads, %d rounds: %.2f s a block without, %.2f s with: "
      "%.1f %% (bar: 3 %%) %s\n",
      s.steps, s.direct ? " past the page cache" : "", static_cast<long long>(s.batch),
      static_cast<long long>(s.length), s.threads, s.rounds, best(without), best(with), cost * 100,
      cost <= 0.03 ? "holds" : "MISSED");
  std::printf("processor time: %.1f %% more; a save was under way in %.1f steps\n", processor * 100,
              static_cast<double>(saved_steps) / s.rounds);
  return cost <= 0.03 ? 0 : 1;
}

Measured train_on_ranks(const Settings& s) {
  if (s.ranks == 1) {
    Mesh alone;
    return train(s, alone);
  }
  const SystemClock clock;
  const ThreadsWorld world(s.ranks);
  CommOptions options;
  options.clock = &clock;
  ParallelDims dims;
  dims.dp_shard = s.ranks, dims.zero = 1;
  std::vector<Measured> measured(static_cast<std::size_t>(s.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < s.ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto communicator = world.communicator(rank, 1, options);
      const auto mesh = Mesh::create(dims, *communicator);
      if (mesh.ok()) measured[static_cast<std::size_t>(rank)] = train(s, **mesh);
    });
  for (std::thread& thread : threads) thread.join();
  return measured[0];
}

void print(const Settings& s, const Measured& measured) {
  const auto list = [](const std::vector<double>& values) {
    std::vector<std::string> texts;
    for (const double value : values) texts.push_back(format("{:.4f}", value));
    return join(texts, ", ");
  };
  std::printf("%s\n", format("{{\"batch\": {}, \"length\": {}, \"threads\": {}, \"ranks\": {}, \"seconds\": [{}], "
                             "\"processor_seconds\": [{}], "
                             "\"first_loss\": {:.4f}, \"last_loss\": {:.4f}}}",
                             s.batch, s.length, s.threads, s.ranks, list(measured.seconds),
                             list(measured.processor_seconds), measured.first_loss, measured.last_loss)
                          .c_str());
}

int ceiling(const Settings& s) {
  const bench::GemmCeiling ceiling = bench::gemm_ceiling(s.shape, s.batch * s.length, s.threads, s.rounds);
  if (!ceiling.missing.empty())
    std::fprintf(stderr, "gpt2_speed: oneDNN has no code for products of %s on this processor\n",
                 ceiling.missing.c_str());
  if (ceiling.flop == 0) {
    std::fprintf(stderr, "gpt2_speed: there is no ceiling to measure here\n");
    return 1;
  }
  std::printf("%s\n",
              format("{{\"batch\": {}, \"length\": {}, \"threads\": {}, \"seconds\": {:.4f}, \"flop\": {:.6g}, "
                     "\"bf16_share\": {:.2f}}}",
                     s.batch, s.length, s.threads, ceiling.seconds, ceiling.flop, ceiling.bf16 / ceiling.seconds)
                  .c_str());
  return 0;
}

// What a recipe says of its model, with that vocabulary.
ModelShape shape_of(const std::string& recipe, std::int64_t vocabulary) {
  const auto file = read_toml_file(recipe);
  if (!file.ok()) fail(file.error());
  const Value* model = file->find("model");
  if (model == nullptr) fail(make_error(ErrorCode::invalid_input, format("{} has no [model]", recipe)));
  auto shape = model_shape_fields().parse(*model, "model");
  if (!shape.ok()) fail(shape.error());
  shape->vocab_size = vocabulary;
  shape = resolve_shape(*shape);
  if (!shape.ok()) fail(shape.error());
  return *shape;
}

std::optional<CpuLevel> level_named(const std::string& name) {
  constexpr std::pair<const char*, CpuLevel> levels[] = {
      {"portable", CpuLevel::portable},       {"avx2", CpuLevel::avx2}, {"avx512", CpuLevel::avx512},
      {"avx512_bf16", CpuLevel::avx512_bf16}, {"amx", CpuLevel::amx},   {"best", CpuLevel::best}};
  for (const auto& [text, level] : levels)
    if (name == text) return level;
  return std::nullopt;
}

int usage() {
  std::fprintf(stderr,
               "usage: gpt2_speed train|ceiling|save --batch B --length T [--threads n] [--ranks r] [--steps s] "
               "[--rounds r] [--precision bf16|f32] [--level L] [--folder F] [--direct 0|1] "
               "[--model RECIPE.toml] [--vocabulary v]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  std::map<std::string, std::string> given;
  for (int i = 2; i < argc; i += 2) given[argv[i]] = argv[i + 1];
  Settings s;
  const auto take = [&](const char* name, auto& value) {
    if (const auto found = given.extract(name)) value = std::atoi(found.mapped().c_str());
  };
  take("--batch", s.batch), take("--length", s.length), take("--threads", s.threads), take("--ranks", s.ranks);
  take("--steps", s.steps), take("--rounds", s.rounds), take("--direct", s.direct);
  if (const auto found = given.extract("--precision")) s.dtype = found.mapped() == "f32" ? DType::f32 : DType::bf16;
  if (const auto found = given.extract("--level")) {
    const std::optional<CpuLevel> level = level_named(found.mapped());
    if (!level) return usage();
    s.level = *level;
  }
  std::int64_t vocabulary = 3072;
  take("--vocabulary", vocabulary);
  if (const auto found = given.extract("--model")) s.shape = shape_of(found.mapped(), vocabulary);
  if (const auto found = given.extract("--folder")) s.folder = found.mapped();
  if (!given.empty() || s.batch < 1 || s.length < 1 || s.length > 1024 || s.ranks < 1 || s.threads < 1 ||
      s.batch % s.ranks != 0 || s.steps < 1 || s.rounds < 1)
    return usage();
  const std::string mode = argv[1];
  if (mode == "train") {
    print(s, train_on_ranks(s));
    return 0;
  }
  if (mode == "save") return save(s);
  if (mode != "ceiling") return usage();
  return ceiling(s);
}
