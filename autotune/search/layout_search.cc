#include "autotune/search/layout_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <tuple>

#include "autotune/memory/fit_advice.h"
#include "autotune/search/alternatives.h"
#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

FrameworkTraining framework_training(const TrainingTask& task, const TrainingLayout& layout) {
  FrameworkTraining t;
  t.dims = layout.dims, t.schedule = layout.schedule, t.group = layout.group;
  t.micro_batches = static_cast<int>(layout.micro_batches(task));
  t.micro_batch_size = layout.micro_batch_size, t.sequence_length = task.sequence_length;
  t.recompute = layout.recompute;
  t.fp8 = layout.precision == Precision::fp8 || layout.precision == Precision::fp4;
  t.host_optimizer = layout.offload_moments ? 1 : 0;
  t.context = layout.context;
  return t;
}

std::optional<MeasuredCorrection> correction_of(const SearchRequest& q) {
  constexpr double repeat_sigma = 0.01;  // of the same training in another job, on other nodes
  if (q.measured.empty()) return {};
  const double sigma = prediction_spread(q.task.shape, q.place.cluster.gpu, q.place.common);
  return MeasuredCorrection(q.measured, sigma, repeat_sigma);
}

std::string layout_text(const TrainingLayout& layout) {
  std::vector<std::string> parts = {layout.dims.to_string(), format("micro-batch {}", layout.micro_batch_size)};
  if (layout.dims.pp > 1) parts.emplace_back(to_string(layout.schedule));
  const Recompute& r = layout.recompute;
  if (r.any()) {
    std::vector<std::string> modules;
    if (r.block) modules.emplace_back("block");
    if (r.attention) modules.emplace_back("attention");
    if (r.feed_forward) modules.emplace_back("feed_forward");
    if (r.activation) modules.emplace_back("activation");
    if (r.norms) modules.emplace_back("norms");
    parts.push_back("recompute " + join(modules, "+") + (r.layers > 0 ? format(" of {} layers", r.layers) : ""));
  }
  if (layout.offload_moments) parts.emplace_back("moments on the host");
  parts.emplace_back(to_string(layout.precision));
  return join(parts, ", ");
}

namespace {

struct Scored {
  TrainingLayout layout;
  double bound = 0;
  double memory = 0;
};

// Total and the same everywhere: by time, then by what is simpler.
auto sort_key(const TrainingLayout& l) {
  const ParallelDims& d = l.dims;
  return std::tuple(d.pp * d.vp, d.tp * d.cp, d.ep * d.etp, d.zero, d.dp_replicate, l.offload_moments,
                    l.recompute.any(), l.recompute.block, l.recompute.layers, l.recompute.attention,
                    l.recompute.feed_forward, l.recompute.norms, l.micro_batch_size, static_cast<int>(l.schedule), d.tp,
                    d.sp, d.vp, d.ep, static_cast<int>(l.precision));
}

bool better(const Scored& a, const Scored& b) {
  return a.bound != b.bound ? a.bound < b.bound : sort_key(a.layout) < sort_key(b.layout);
}

// The best by bound, at most `most` of them.
class BestSet {
 public:
  explicit BestSet(std::size_t most) : most_(most) {}
  bool would_keep(double bound) const { return heap_.size() < most_ || bound <= heap_.front().bound; }
  bool full() const { return heap_.size() == most_; }
  void add(const Scored& scored) {
    if (heap_.size() == most_) {
      if (!better(scored, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.pop_back();
    }
    heap_.push_back(scored);
    std::push_heap(heap_.begin(), heap_.end(), better);
  }
  const std::vector<Scored>& members() const { return heap_; }

 private:
  std::size_t most_;
  std::vector<Scored> heap_;  // the worst in front
};

constexpr std::size_t survivors_max = 50'000;
constexpr int memory_steps = 48;  // of the memory limit, for the Pareto front
constexpr double no_memory_limit = 1e17;

// Without a limit three steps an octave, from 64 MiB to 4 TiB.
int memory_step(double memory, double limit) {
  const double step = limit < no_memory_limit ? memory / limit * memory_steps : 3 * std::log2(memory / (1 << 26));
  return std::clamp(static_cast<int>(step), 0, memory_steps - 1);
}

// What one thread has seen.
struct Seen {
  BestSet best{survivors_max};
  std::vector<BestSet> by_memory;  // the fastest that need at most so much
  std::vector<BestSet> by_class;   // alternatives.h
  std::vector<double> least;       // memory of any layout of the class
  double least_memory = 1e300;
  std::optional<TrainingLayout> smallest;
  std::int64_t enumerated = 0, fitting = 0;

  Seen() {
    for (int i = 0; i < memory_steps; ++i) by_memory.emplace_back(1);
    for (int i = 0; i < alternative_classes; ++i) by_class.emplace_back(8);
    least.assign(alternative_classes, 1e300);
  }

  void add(const Scored& scored, double limit, unsigned classes) {
    const bool fits = scored.memory <= limit;
    if (scored.memory < least_memory) least_memory = scored.memory, smallest = scored.layout;
    for (int c = 0; c < alternative_classes; ++c) {
      if ((classes >> c & 1U) == 0) continue;
      least[static_cast<std::size_t>(c)] = std::min(least[static_cast<std::size_t>(c)], scored.memory);
      if (fits) by_class[static_cast<std::size_t>(c)].add(scored);
    }
    if (!fits) return;
    ++fitting;
    best.add(scored);
    by_memory[static_cast<std::size_t>(memory_step(scored.memory, limit))].add(scored);
  }

  void merge(const Seen& other) {
    enumerated += other.enumerated, fitting += other.fitting;
    if (other.least_memory < least_memory) least_memory = other.least_memory, smallest = other.smallest;
    for (const Scored& s : other.best.members()) best.add(s);
    for (std::size_t i = 0; i < by_memory.size(); ++i)
      for (const Scored& s : other.by_memory[i].members()) by_memory[i].add(s);
    for (std::size_t c = 0; c < by_class.size(); ++c) {
      for (const Scored& s : other.by_class[c].members()) by_class[c].add(s);
      least[c] = std::min(least[c], other.least[c]);
    }
  }
};

Seen score_all(const SearchRequest& q, const std::vector<LayoutFamily>& families) {
  const FrameworkModel model = framework_model(q.task.shape);
  Seen all;
  std::mutex mutex;
  const std::size_t parts = static_cast<std::size_t>(std::max(1, q.threads)) * 4;
  parallel_for(parts, q.threads, [&](std::size_t part) {
    Seen mine;
    for (std::size_t f = part; f < families.size(); f += parts) {
      const UnitTimes units = unit_times(q.task, families[f].layout(), q.place);
      bool fits_without = false;  // for_each_layout asks with the moments on the GPU first
      for_each_layout(families[f], q.space, q.task, q.place.cluster, [&](const TrainingLayout& layout) {
        ++mine.enumerated;
        if (layout.offload_moments && fits_without) return;  // slower, for nothing
        const double bound = step_bound(q.task, layout, q.place, units).seconds();
        const WorstStage worst = worst_stage_memory(q.memory, model, framework_training(q.task, layout));
        fits_without = worst.memory.total() <= q.memory_limit;
        mine.add({layout, bound, worst.memory.total()}, q.memory_limit, classes_of(layout, q.place.cluster));
      });
    }
    const std::lock_guard lock(mutex);
    all.merge(mine);
  });
  return all;
}

// The second level.
struct Simulator {
  const SearchRequest& q;
  FrameworkModel model;
  std::optional<MeasuredCorrection> correction;
  std::int64_t simulated = 0;

  std::optional<RankedLayout> simulate(const Scored& scored);
  std::vector<RankedLayout> best_of(std::vector<Scored> scored, std::size_t wanted);
};

std::optional<RankedLayout> Simulator::simulate(const Scored& scored) {
  ++simulated;
  auto time = step_time(q.task, scored.layout, q.place);
  if (!time.ok()) return {};  // a schedule that its micro-batches do not allow
  if (correction) time = corrected(*time, correction->at(likeness_of(q.task, scored.layout)));
  const WorstStage worst = worst_stage_memory(q.memory, model, framework_training(q.task, scored.layout));
  return RankedLayout{scored.layout, *time, worst.memory, worst.pp_rank};
}

bool faster(const RankedLayout& a, const RankedLayout& b) {
  const double x = a.seconds(), y = b.seconds();
  return x != y ? x < y : sort_key(a.layout) < sort_key(b.layout);
}

// Best bound first, until no bound is below the time of the last one that is wanted. What corrects a time corrects its
// bound.
std::vector<RankedLayout> Simulator::best_of(std::vector<Scored> scored, std::size_t wanted) {
  if (correction)
    for (Scored& one : scored) one.bound *= correction->factor(likeness_of(q.task, one.layout));
  std::sort(scored.begin(), scored.end(), better);
  std::vector<RankedLayout> found;
  for (const Scored& next : scored) {
    if (found.size() >= wanted && next.bound > found[wanted - 1].seconds()) break;
    auto ranked = simulate(next);
    if (!ranked) continue;
    found.insert(std::upper_bound(found.begin(), found.end(), *ranked, faster), *ranked);
    if (found.size() > wanted) found.pop_back();
  }
  return found;
}

std::vector<RankedLayout> pareto_front(Simulator& simulator, const Seen& seen, const std::vector<RankedLayout>& best) {
  std::vector<RankedLayout> candidates(best.begin(), best.begin() + 1);
  for (const BestSet& step : seen.by_memory)
    for (const RankedLayout& ranked : simulator.best_of(step.members(), 1)) candidates.push_back(ranked);
  std::sort(candidates.begin(), candidates.end(), faster);
  std::vector<RankedLayout> front;
  for (const RankedLayout& c : candidates)
    if (front.empty() || c.memory.total() < front.back().memory.total() * 0.98) front.push_back(c);
  return front;
}

// Twice as many GPUs, four times, ... until some layout of them fits.
std::optional<int> gpus_that_fit(const SearchRequest& q) {
  constexpr int times_max = 64;
  for (int times = 2; times <= times_max; times *= 2) {
    SearchRequest more = q;
    more.space.gpus *= times;
    const auto families = layout_families(more.space, more.task, more.place.cluster);
    if (families.ok() && score_all(more, *families).fitting > 0) return more.space.gpus;
  }
  return {};
}

bool engine_may_offload(const SearchSpace& space, TrainingLayout layout) {
  if (!space.engine) return true;
  EngineCase asked = *space.engine;
  layout.offload_moments = true;
  take_layout(layout, asked);
  return !engine_refuses(asked);
}

// The search has tried every layout; what is left are things that it was not allowed, and other hardware.
std::string what_would_fit(const SearchRequest& q, const TrainingLayout& smallest) {
  FitRequest fit;
  fit.profile = q.memory, fit.model = framework_model(q.task.shape);
  fit.training = framework_training(q.task, smallest);
  fit.device_bytes = q.memory_limit;
  fit.host_bytes = std::numeric_limits<double>::infinity();  // of the node: nobody has said how much that is
  fit.gpus_per_node = q.place.cluster.gpus_per_node;
  fit.may_recompute = !q.space.recompute;
  fit.may_offload = !q.space.offload && engine_may_offload(q.space, smallest);
  fit.may_relayout = fit.may_add_gpus = false;
  std::vector<std::string> ways;
  const FitAdvice advice = advise_fit(fit);
  for (const FitChange& change : advice.changes) ways.push_back(change.what);
  if (const auto gpus = gpus_that_fit(q)) ways.push_back(format("{} GPUs", *gpus));
  ways.push_back(format("GPUs with {} of memory", human_bytes(advice.needed_bytes * 1.02)));
  return "it would fit with " + join(ways, ", or with ");
}

Error nothing_fits(const SearchRequest& q, const Seen& seen) {
  const auto text = [](double bytes) { return human_bytes(bytes); };
  return make_error(
      ErrorCode::unavailable,
      format(
          "no layout of this model fits on {} GPUs: the smallest of {} ({}) needs {} per GPU and there are {}: {} too "
          "much",
          q.space.gpus, seen.enumerated, layout_text(*seen.smallest), text(seen.least_memory), text(q.memory_limit),
          text(seen.least_memory - q.memory_limit)),
      what_would_fit(q, *seen.smallest));
}

}  // namespace

Result<SearchOutcome> search_layouts(const SearchRequest& q) {
  const auto begin = std::chrono::steady_clock::now();
  LH_TRY(const auto families, layout_families(q.space, q.task, q.place.cluster));
  const Seen seen = score_all(q, families);
  if (seen.enumerated == 0)
    return make_error(
        ErrorCode::invalid_input,
        format("no layout divides global_batch_size {} among {} GPUs as asked for", q.task.global_batch_size,
               q.space.gpus),
        format("global_batch_size has to be a multiple of micro_batch_size * dp; with tp = pp = cp = 1 dp is "
               "{}",
               q.space.gpus));
  if (seen.fitting == 0) return nothing_fits(q, seen);
  Simulator simulator{q, framework_model(q.task.shape), correction_of(q)};
  SearchOutcome outcome;
  outcome.enumerated = seen.enumerated, outcome.fitting = seen.fitting;
  outcome.best = simulator.best_of(seen.best.members(), static_cast<std::size_t>(std::max(1, q.best)));
  if (outcome.best.empty())
    return make_error(ErrorCode::invalid_input,
                      "every layout that fits has a pipeline schedule that its micro-batches "
                      "do not allow",
                      "use a larger global_batch_size");
  outcome.pareto = pareto_front(simulator, seen, outcome.best);
  for (int c = 0; c < alternative_classes; ++c) {
    const auto index = static_cast<std::size_t>(c);
    auto fastest = simulator.best_of(seen.by_class[index].members(), 1);
    Alternative a;
    a.name = alternative_name(c), a.possible = seen.least[index] < 1e300;
    if (!fastest.empty())
      a.fastest = fastest.front();
    else if (a.possible)
      a.missing = seen.least[index] - q.memory_limit;
    a.verdict = verdict_on(a, outcome.best.front());
    outcome.alternatives.push_back(std::move(a));
  }
  outcome.simulated = simulator.simulated;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

}  // namespace longhaul
