// What a choice of the trainer costs in time per step and in memory: the same training once in each way, their steps by
// turns in one run, so that whatever else the machine does meets all of them alike.
//
// usage: training_modes deterministic|moments|offload|contributions [--shape small|gpt2] [--micro-batches n] [--length
// T] [--steps s]
//                       [--threads n] [--folder F]
// contributions: the checksums that corruption.check = "contributions" takes on a rank of several in a step, three
// passes over the bytes of its gradients, beside the step that it computes; exchanges between ranks are not in it.
// deterministic: the tree over micro-batches, and adding them in turn. moments: f32, and bf16 rounded to nearest or
// stochastically. offload: moments in memory, and in a file in F. bf16 compute; a micro-batch is one sequence.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/checkpoint/state/file_state_place.h"
#include "engine/comm/contribution_check.h"
#include "engine/train/step/trainer.h"
#include "tests/bench/gpt2_speed/fixed_tokens.h"

using namespace longhaul;
using namespace longhaul::bench;

namespace {

struct Settings {
  std::string what, shape = "small", folder = "/tmp";
  int micro_batches = 4, length = 128, steps = 10, threads = 1;
};

struct Way {
  std::string name;
  bool deterministic = true;
  std::string moments = "f32", rounding = "nearest";
  bool offload = false;
};

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  std::exit(1);
}
template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

// Their f32 moments are about 100 MB.
ModelShape small_shape() {
  ModelShape shape;
  shape.vocab_size = 8192, shape.hidden_size = 256, shape.intermediate_size = 768, shape.num_hidden_layers = 14;
  shape.num_attention_heads = 4, shape.num_key_value_heads = 4, shape.head_dim = 64;
  return value_of(resolve_shape(shape));
}

double seconds_of(clockid_t clock) {
  struct timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Training {
 public:
  Training(const Settings& s, const Way& way, const ModelShape& shape)
      : name(way.name),
        context_(s.threads),
        store_(shape, DType::bf16),
        options_(options_of(s, way)),
        source_(s.micro_batches, s.length, shape.vocab_size) {
    if (way.offload) offload(s);
    LlamaOptions model = stage_options(value_of(training_schedules(options_, mesh_)), options_, mesh_, 0);
    model.tokens_max = options_.tokens_max;
    model_ = std::make_unique<Llama>(store_, model);
    trainer_ = std::make_unique<Trainer>(context_, mesh_, store_, std::vector<Llama*>{model_.get()}, objective_,
                                         source_, options_, &memory_);
    initialize_parameters(context_, store_, 1);
    store_.refresh_compute_copy(context_);
  }
  void step() {
    const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    loss = value_of(trainer_->step()).loss;
    wall_s.push_back(seconds_of(CLOCK_MONOTONIC) - wall);
    processor_s.push_back(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor);
  }
  // Of gradients and moments, with whatever belongs to them.
  std::int64_t bytes() const {
    return memory_.peak()[MemoryCategory::gradients] + memory_.peak()[MemoryCategory::optimizer];
  }

  const std::string name;
  double loss = 0;
  std::vector<double> wall_s, processor_s;

 private:
  static TrainerOptions options_of(const Settings& s, const Way& way) {
    TrainerOptions o;
    o.optimizer.lr = 1e-4, o.optimizer.moments = way.moments, o.optimizer.rounding = way.rounding;
    o.steps = 1000, o.global_batch_size = s.micro_batches, o.tokens_max = s.length;
    o.deterministic = way.deterministic;
    return o;
  }
  void offload(const Settings& s) {
    const StateTypes types = state_types(options_.optimizer);
    const std::int64_t elements = store_.layout().owned().size();
    place_ = value_of(FileStatePlace::create(s.folder, MomentStream::bytes_for(types, elements),
                                             &memory_.of(MemoryCategory::optimizer)));
    MomentStreamOptions stream;
    stream.account = &memory_.of(MemoryCategory::optimizer);
    moments_ = value_of(MomentStream::create(*place_, types, elements, stream));
    options_.offloaded = moments_.get();
    std::printf("  moments: %s in %s, %s\n", human_bytes(static_cast<double>(place_->bytes())).c_str(),
                s.folder.c_str(), place_->is_direct() ? "direct I/O" : "through the page cache");
  }

  MemoryAccounts memory_;
  ComputeContext context_;
  Mesh mesh_;
  ParameterStore store_;
  TrainerOptions options_;
  FixedTokens source_;
  LanguageModelObjective objective_;
  std::unique_ptr<FileStatePlace> place_;
  std::unique_ptr<MomentStream> moments_;
  std::unique_ptr<Llama> model_;
  std::unique_ptr<Trainer> trainer_;
};

std::vector<Way> ways_of(const std::string& what) {
  if (what == "contributions") return {{"a step"}};
  if (what == "deterministic") return {{"added in turn", false}, {"deterministic", true}};
  if (what == "moments")
    return {{"f32"},
            {"bf16, to nearest", true, "bf16"},
            {"bf16, stochastic", true, "bf16", "stochastic"},
            {"bf16 and f32, stochastic", true, "mixed", "stochastic"}};
  if (what == "offload") return {{"in memory"}, {"in a file", true, "f32", "nearest", true}};
  return {};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Processor seconds of the checksums of one step: given and sent by this rank, received from `ranks`.
double checksum_seconds(std::int64_t weights, int ranks, int tries) {
  std::vector<float> gradient(static_cast<std::size_t>(weights / ranks * ranks));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 8191) * 1e-3F;
  std::vector<double> seconds;
  for (int attempt = 0; attempt < tries; ++attempt) {
    const double begun = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    std::uint64_t sums = 0;
    for (int pass = 0; pass < 3; ++pass)
      for (const std::uint64_t sum :
           contribution_checksums(CollectiveKind::reduce_scatter_sum, std::as_bytes(std::span(gradient)), ranks))
        sums += sum;
    seconds.push_back(seconds_of(CLOCK_THREAD_CPUTIME_ID) - begun);
    if (sums == 0) std::printf("  (sums of 0)\n");  // they are looked at
    gradient[static_cast<std::size_t>(attempt)] += 1;
  }
  return median(seconds);
}

int usage() {
  std::fprintf(
      stderr,
      "usage: training_modes deterministic|moments|offload|contributions [--shape small|gpt2] [--micro-batches n]\n"
      "                      [--length T] [--steps s] [--threads n] [--folder F]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  Settings s;
  s.what = argv[1];
  std::map<std::string, std::string> given;
  for (int i = 2; i < argc; i += 2) given[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name, int& value) {
    if (const auto found = given.extract(name)) value = std::atoi(found.mapped().c_str());
  };
  const auto word = [&](const char* name, std::string& value) {
    if (const auto found = given.extract(name)) value = found.mapped();
  };
  number("--micro-batches", s.micro_batches), number("--length", s.length), number("--steps", s.steps);
  number("--threads", s.threads), word("--shape", s.shape), word("--folder", s.folder);
  const std::vector<Way> ways = ways_of(s.what);
  if (!given.empty() || ways.empty() || (s.shape != "small" && s.shape != "gpt2") || s.micro_batches < 1 ||
      s.length < 1 || s.length > 1024 || s.steps < 1 || s.threads < 1)
    return usage();

  const ModelShape shape = s.shape == "gpt2" ? gpt2_124m() : small_shape();
  std::printf("%s: %lld weights, %d micro-batches of %d tokens, %d threads\n", s.what.c_str(),
              static_cast<long long>(shape.parameter_count()), s.micro_batches, s.length, s.threads);
  std::vector<std::unique_ptr<Training>> trainings;
  for (const Way& way : ways) trainings.push_back(std::make_unique<Training>(s, way, shape));
  for (int step = 0; step <= s.steps; ++step)  // the first is not counted
    for (const auto& training : trainings) {
      training->step();
      if (step == 0) training->wall_s.clear(), training->processor_s.clear();
    }
  std::printf("  %-26s %12s %12s %14s %12s %10s\n", "", "wall ms", "least", "processor ms", "of first", "memory");
  const double first = median(trainings.front()->wall_s);
  for (const auto& training : trainings)
    std::printf("  %-26s %12.1f %12.1f %14.1f %11.3fx %10s   loss %.6f\n", training->name.c_str(),
                1e3 * median(training->wall_s), 1e3 * *std::ranges::min_element(training->wall_s),
                1e3 * median(training->processor_s), median(training->wall_s) / first,
                human_bytes(static_cast<double>(training->bytes())).c_str(), training->loss);
  if (s.what == "contributions")
    for (const int ranks : {2, 8, 64}) {
      const double checks = checksum_seconds(shape.parameter_count(), ranks, s.steps);
      const double step = median(trainings.front()->processor_s);
      std::printf("  checksums over %d ranks: %.2f ms of processor time, %.1f GB/s, %.2f %% of the step's\n", ranks,
                  1e3 * checks, 12e-9 * static_cast<double>(shape.parameter_count()) / checks, 100 * checks / step);
    }
  return 0;
}
