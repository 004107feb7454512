// The search for layouts beside its bars: Llama-3 405B on 16,384 H100 over the whole space, lower bounds per second and
// core, and the same winner as simulating everything on 20 random smaller cases. Exit code 1: a bar is missed.
//
//   search_bars [--constants autotune/constants.toml] [--cases 20] [--seed N] [--small]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "autotune/search/layout_search.h"
#include "base/text/text.h"

namespace longhaul::bench {
namespace {

int missed = 0;
void bar(const char* what, double figure, const char* unit, double limit, bool at_most) {
  const bool met = at_most ? figure <= limit : figure >= limit;
  missed += !met;
  std::printf("  %-56s %12.2f %-12s bar %s %g   %s\n", what, figure, unit, at_most ? "<=" : ">=", limit,
              met ? "met" : "MISSED");
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

ModelShape llama_405b() {
  ModelShape s;
  s.hidden_size = 16384, s.intermediate_size = 53248, s.num_hidden_layers = 126, s.num_attention_heads = 128;
  s.num_key_value_heads = 8, s.head_dim = 128, s.vocab_size = 128256, s.tie_word_embeddings = false;
  return s;
}

SearchRequest question_of(const TimeConstants& constants, const std::string& gpu_name, int gpus) {
  const GpuType gpu = *constants.gpu_named(gpu_name);
  SearchRequest q;
  q.place = {{gpu, 8, gpu.link_domain, gpu.nic_rate}, *constants.framework("longhaul"), constants.common};
  q.memory = *memory_profile("longhaul"), q.memory_limit = gpu.memory * 0.94, q.space.gpus = gpus;
  return q;
}

void print(const SearchOutcome& o) {
  for (std::size_t i = 0; i < std::min<std::size_t>(5, o.best.size()); ++i)
    std::printf("    %7.3f s  %9s  %s\n", o.best[i].seconds(), human_bytes(o.best[i].memory.total()).c_str(),
                layout_text(o.best[i].layout).c_str());
  for (const Alternative& a : o.alternatives) std::printf("    %s: %s\n", a.name.c_str(), a.verdict.c_str());
  std::printf("    Pareto:");
  for (const RankedLayout& p : o.pareto) std::printf(" %.2f s/%s", p.seconds(), human_bytes(p.memory.total()).c_str());
  std::printf("\n");
}

Status largest(const TimeConstants& constants) {
  SearchRequest q = question_of(constants, "H100", 16384);
  q.task = {llama_405b(), 8192, 2048};
  q.space.precision = {Precision::bf16, Precision::fp8};
  LH_TRY(const SearchOutcome o, search_layouts(q));
  std::printf("Llama-3 405B on 16,384 H100: %ld layouts, %ld fit, %ld simulated, in %.2f s\n",
              static_cast<long>(o.enumerated), static_cast<long>(o.fitting), static_cast<long>(o.simulated), o.seconds);
  print(o);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  bar("Llama-3 405B on 16,384 H100, 2 cores", o.seconds, "s", 10, true);
  bar("its memory", static_cast<double>(usage.ru_maxrss) / 1024, "MiB", 500, true);
  return {};
}

// Bounds of time and memory, as the first level of the search asks for them, on one core.
void bounds_per_second(const TimeConstants& constants) {
  SearchRequest q = question_of(constants, "H100", 16384);
  q.task = {llama_405b(), 8192, 2048};
  q.space.tp = {8}, q.space.cp = {1}, q.space.micro_batch_size = {1};
  const auto families = *layout_families(q.space, q.task, q.place.cluster);
  std::vector<TrainingLayout> layouts;
  for (const LayoutFamily& family : families)
    for_each_layout(family, q.space, q.task, q.place.cluster, [&](const TrainingLayout& l) { layouts.push_back(l); });
  const UnitTimes units = unit_times(q.task, layouts.front(), q.place);
  const FrameworkModel model = framework_model(q.task.shape);
  const auto measure = [&](const auto& one) {
    const auto begin = std::chrono::steady_clock::now();
    double sum = 0;
    std::int64_t calls = 0;
    while (seconds_since(begin) < 1)
      for (const TrainingLayout& l : layouts) sum += one(l), ++calls;
    return sum > 0 ? static_cast<double>(calls) / seconds_since(begin) : 0;
  };
  const double time = measure([&](const TrainingLayout& l) { return step_bound(q.task, l, q.place, units).seconds(); });
  const double memory = measure([&](const TrainingLayout& l) {
    return worst_stage_memory(q.memory, model, framework_training(q.task, l)).memory.total();
  });
  std::printf("closed forms on one core, %zu layouts\n", layouts.size());
  bar("lower bounds of time", time / 1e6, "million/s", 1, false);
  std::printf("  %-56s %12.2f million/s\n", "memory of the worst stage", memory / 1e6);
}

// The fastest by simulating everything that fits.
double brute_force(const SearchRequest& q) {
  const FrameworkModel model = framework_model(q.task.shape);
  double best = 1e300;
  const std::vector<LayoutFamily> families = *layout_families(q.space, q.task, q.place.cluster);
  for (const LayoutFamily& family : families)
    for_each_layout(family, q.space, q.task, q.place.cluster, [&](const TrainingLayout& l) {
      if (worst_stage_memory(q.memory, model, framework_training(q.task, l)).memory.total() > q.memory_limit) return;
      const auto time = step_time(q.task, l, q.place);
      if (time.ok()) best = std::min(best, time->seconds());
    });
  return best;
}

void small_cases(const TimeConstants& constants, int cases, unsigned seed) {
  std::printf("winner against simulating everything, %d random cases, seed %u\n", cases, seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int> of) {
    return *(of.begin() + std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random));
  };
  int same = 0, asked = 0;
  while (asked < cases) {
    SearchRequest q = question_of(constants, pick({0, 1}) == 1 ? "H100" : "A100", pick({4, 8, 12, 16, 24, 32, 64}));
    ModelShape& s = q.task.shape;
    s.num_hidden_layers = pick({12, 18, 24, 30, 32}), s.num_attention_heads = pick({16, 24, 32});
    s.head_dim = 128, s.hidden_size = s.num_attention_heads * 128, s.num_key_value_heads = pick({4, 8});
    s.intermediate_size = s.hidden_size * 7 / 2, s.vocab_size = 128256, s.tie_word_embeddings = false;
    q.task.sequence_length = pick({2048, 4096, 8192});
    q.task.global_batch_size = std::int64_t{q.space.gpus} * pick({1, 2, 4});
    q.memory_limit *= pick({2, 3, 5}) / 5.0;
    q.space.offload = pick({0, 1}) == 1;
    if (pick({0, 1, 2}) == 0)
      s.architecture = "mixtral", s.num_local_experts = 8, s.moe_intermediate_size = s.intermediate_size;
    const auto outcome = search_layouts(q);
    if (!outcome.ok()) continue;  // does not fit
    ++asked;
    const double best = brute_force(q), found = outcome->best.front().seconds();
    const bool equal = std::abs(found / best - 1) < 1e-9;
    same += equal;
    std::printf(
        "    %s x%-3d layers %2ld hidden %4ld: %.4f s found, %.4f s by simulating all, %ld of %ld simulated%s\n",
        q.place.cluster.gpu.key.c_str(), q.space.gpus, static_cast<long>(s.num_hidden_layers),
        static_cast<long>(s.hidden_size), found, best, static_cast<long>(outcome->simulated),
        static_cast<long>(outcome->fitting), equal ? "" : "   DIFFERENT");
  }
  bar("cases with the same winner", same, "cases", cases, false);
}

}  // namespace
}  // namespace longhaul::bench

int main(int argc, char** argv) {
  std::string path = "autotune/constants.toml";
  int cases = 20;
  unsigned seed = 20261123;
  bool small = false;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--constants" && i + 1 < arguments.size())
      path = arguments[++i];
    else if (arguments[i] == "--cases" && i + 1 < arguments.size())
      cases = std::atoi(arguments[++i].c_str());
    else if (arguments[i] == "--seed" && i + 1 < arguments.size())
      seed = static_cast<unsigned>(std::atoi(arguments[++i].c_str()));
    else if (arguments[i] == "--small")
      small = true;
    else
      return std::fprintf(stderr, "search_bars: unknown argument %s\n", arguments[i].c_str()), 2;
  }
  const auto constants = longhaul::read_time_constants(path);
  if (!constants.ok()) return std::fprintf(stderr, "search_bars: %s\n", constants.error().message().c_str()), 2;
  if (!small) {
    if (const auto done = longhaul::bench::largest(*constants); !done.ok())
      return std::fprintf(stderr, "search_bars: %s\n", done.error().message().c_str()), 2;
    longhaul::bench::bounds_per_second(*constants);
  }
  longhaul::bench::small_cases(*constants, cases, seed);
  return longhaul::bench::missed > 0 ? 1 : 0;
}
