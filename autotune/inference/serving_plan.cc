#include "autotune/inference/serving_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::string serving_gb(double bytes) {
  return format("{:.1f} GB", bytes / 1e9);
}
std::string serving_ms(double seconds) {
  return format("{:.3g} ms", seconds * 1e3);
}

std::string describe_serving(const ServingLayout& l) {
  return format("tp {}, {} weights, {} cache, {} slots, chunks of {}", l.tp, to_string(l.weights), to_string(l.cache),
                l.slots, l.chunk);
}

// The bytes that one slot more, or the first one, takes beside what there is.
double cache_shortage(const ServingTask& task, const ServingCandidate& c) {
  const std::int64_t block = c.layout.block, each = (task.context() + block - 1) / block;
  return static_cast<double>(each * block * c.layout.slots) * c.memory.cache_token - c.memory.room;
}

// Which target it misses, and by what.
std::string missed_targets(const ServingTask& task, const ServingCandidate& c) {
  std::vector<std::string> parts;
  if (c.rates.overloaded)
    parts.push_back(
        format("serves {:.3g} of the {:.3g} requests/s", c.rates.request_rate * c.layout.replicas, task.request_rate));
  if (task.itl_max > 0 && c.rates.itl > task.itl_max)
    parts.push_back(format("ITL {} over the target {}", serving_ms(c.rates.itl), serving_ms(task.itl_max)));
  if (task.ttft_max > 0 && c.rates.ttft > task.ttft_max)
    parts.push_back(format("TTFT {} over the target {}", serving_ms(c.rates.ttft), serving_ms(task.ttft_max)));
  return join(parts, ", ");
}

double serving_figure(const ServingTask& task, const ServingCandidate& c) {
  return task.goal == ServingGoal::throughput ? c.token_rate : 1 / c.rates.latency(task.answer_tokens);
}

// The part of a step that grew most against the winner's, per token that it makes.
std::string largest_growth(const ServingCandidate& c, const ServingCandidate& winner) {
  const auto per_token = [](const ServingCandidate& of, double seconds) {
    return seconds * of.layout.tp / std::max(of.rates.answering, 1e-9);
  };
  struct Part {
    const char* name;
    double ServingStepTime::* member;
  };
  static constexpr Part parts[] = {{"products", &ServingStepTime::products},
                                   {"attention", &ServingStepTime::attention},
                                   {"norms and small kernels", &ServingStepTime::streams},
                                   {"messages between its GPUs", &ServingStepTime::messages},
                                   {"the host", &ServingStepTime::host}};
  const Part* worst = nullptr;
  double most = 0;
  for (const Part& part : parts) {
    const double growth = per_token(c, c.rates.step.*part.member) - per_token(winner, winner.rates.step.*part.member);
    if (growth > most) most = growth, worst = &part;
  }
  if (worst == nullptr) return "";
  return format("; {:.0f} % of its step go to {} (here {:.0f} %)",
                100 * c.rates.step.*worst->member / c.rates.step.total(), worst->name,
                100 * winner.rates.step.*worst->member / winner.rates.step.total());
}

// `slots_asked`: the candidate stands for its number of slots.
std::string why_not_served(const ServingTask& task, const ServingCandidate& c, const ServingCandidate& winner,
                           bool slots_asked) {
  if (!c.fits)
    return format("does not fit: {} too much on each GPU ({} of weights in {})", serving_gb(cache_shortage(task, c)),
                  serving_gb(c.memory.weights), serving_gb(c.memory.held() + c.memory.room));
  if (!c.meets_targets) return missed_targets(task, c) + " at best";
  const double ratio = serving_figure(task, c) / serving_figure(task, winner);
  const char* what = task.goal == ServingGoal::throughput ? "tokens/s" : "speed of an answer";
  if (std::abs(ratio - 1) < 0.01)
    return format("as good within a hundredth: ITL {}, TTFT {}", serving_ms(c.rates.itl), serving_ms(c.rates.ttft));
  if (ratio > 1)
    return format("would bring {:.0f} % more {} at ITL {}", 100 * (ratio - 1), what, serving_ms(c.rates.itl));
  if (slots_asked) return format("{:.0f} % less {} at ITL {}", 100 * (1 - ratio), what, serving_ms(c.rates.itl));
  // Where targets leave it few slots, those are the reason, not its steps.
  const bool held =
      (task.itl_max > 0 || task.ttft_max > 0) && c.layout.slots < winner.layout.slots && c.layout.slots < c.slots_fit;
  const std::string why = held ? format(": the targets leave it {} slots of {} that fit", c.layout.slots, c.slots_fit)
                               : largest_growth(c, winner);
  return format("{:.0f} % less {}{}", 100 * (1 - ratio), what, why);
}

class ServingAlternatives {
 public:
  ServingAlternatives(const ServingTask& task, const std::vector<ServingCandidate>& all, const ServingCandidate& winner)
      : task_(task), all_(all), winner_(winner) {}

  void add(const std::string& name, bool allowed, const std::function<bool(const ServingLayout&)>& belongs,
           bool slots_asked = false) {
    std::vector<const ServingCandidate*> of_kind;
    for (const ServingCandidate& c : all_)
      if (belongs(c.layout)) of_kind.push_back(&c);
    const ServingCandidate* best = best_serving(task_, of_kind);
    if (best == nullptr) return;
    found_.push_back({name, why_not_served(task_, *best, winner_, slots_asked), allowed, *best});
  }
  std::vector<ServingAlternative> take() { return std::move(found_); }

 private:
  const ServingTask& task_;
  const std::vector<ServingCandidate>& all_;
  const ServingCandidate& winner_;
  std::vector<ServingAlternative> found_;
};

template <class T>
bool among(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::vector<ServingAlternative> alternatives_of(const ModelShape& shape, const ServingTask& task,
                                                const ServingPlace& place, const std::vector<ServingCandidate>& all,
                                                const ServingCandidate& winner) {
  const ServingLayout& w = winner.layout;
  // Formats beyond those allowed, as offers: with the winner's tp only, and its own other formats.
  std::vector<ServingCandidate> more = all;
  ServingTask wider = task;
  wider.tp = w.tp, wider.weights.clear();
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::fp8, WeightFormat::int8, WeightFormat::int4})
    if (!among(task.weights, format)) wider.weights.push_back(format);
  for (const ServingCandidate& c : serving_candidates(shape, wider, place)) more.push_back(c);
  wider.weights = {w.weights}, wider.caches.clear();
  for (const CacheFormat format : {CacheFormat::bf16, CacheFormat::fp8})
    if (!among(task.caches, format)) wider.caches.push_back(format);
  for (const ServingCandidate& c : serving_candidates(shape, wider, place)) more.push_back(c);

  const auto allowed = [&](const ServingLayout& l) {
    return among(task.weights, l.weights) && among(task.caches, l.cache);
  };
  ServingAlternatives found(task, more, winner);
  for (const int tp : serving_tp_sizes(shape, task, place.cluster))
    if (tp != w.tp)
      found.add(format("tp = {}", tp), true, [&](const ServingLayout& l) { return l.tp == tp && allowed(l); });
  for (const WeightFormat f : all_weight_formats())
    if (f != w.weights)
      found.add(format("{} weights", to_string(f)), among(task.weights, f),
                [&](const ServingLayout& l) { return l.weights == f && among(task.caches, l.cache); });
  for (const CacheFormat f : all_cache_formats())
    if (f != w.cache)
      found.add(format("{} cache", to_string(f)), among(task.caches, f),
                [&](const ServingLayout& l) { return l.cache == f && l.weights == w.weights; });
  const auto like_winner = [&](const ServingLayout& l) {
    return l.tp == w.tp && l.weights == w.weights && l.cache == w.cache;
  };
  for (const int chunk : task.chunks)
    if (chunk != w.chunk)
      found.add(format("chunks of {}", chunk), true,
                [&](const ServingLayout& l) { return like_winner(l) && l.chunk == chunk; });
  int more_slots = 0, fewer_slots = 0;
  for (const ServingCandidate& c : all) {
    if (!like_winner(c.layout) || c.layout.chunk != w.chunk) continue;
    if (c.layout.slots >= 2 * w.slots && (more_slots == 0 || c.layout.slots < more_slots)) more_slots = c.layout.slots;
    if (2 * c.layout.slots <= w.slots) fewer_slots = std::max(fewer_slots, c.layout.slots);
  }
  for (const int slots : {fewer_slots, more_slots})
    if (slots > 0)
      found.add(
          format("{} slots", slots), true,
          [&](const ServingLayout& l) { return like_winner(l) && l.chunk == w.chunk && l.slots == slots; }, true);
  return found.take();
}

// The least change that makes the first slot fit: a wider group, fewer bits, a larger memory, a shorter context.
Error no_server_fits(const ModelShape& shape, const ServingTask& task, const ServingPlace& place,
                     const ServingCandidate& nearest) {
  const GpuType& gpu = place.cluster.gpu;
  const double missing = cache_shortage(task, nearest);
  std::vector<std::string> ways;
  ServingTask wider = task;
  wider.tp = 0, wider.gpus = std::max(task.gpus, place.cluster.domain);
  for (const int tp : serving_tp_sizes(shape, wider, place.cluster)) {
    ServingLayout layout = nearest.layout;
    layout.tp = tp;
    if (tp <= nearest.layout.tp || slots_that_fit(shape, task, layout, gpu) < 1) continue;
    ways.push_back(format("tp = {} ({} GPUs)", tp, tp));
    break;
  }
  for (const WeightFormat f : {WeightFormat::fp8, WeightFormat::int8, WeightFormat::int4}) {
    ServingLayout layout = nearest.layout;
    layout.weights = f;
    if (among(task.weights, f) || !gpu_has(gpu, f) || slots_that_fit(shape, task, layout, gpu) < 1) continue;
    ways.push_back(format("{} weights", to_string(f)));
    break;
  }
  const double left = nearest.memory.room / nearest.memory.cache_token;
  if (left >= 2 * nearest.layout.block)
    ways.push_back(
        format("a context of {} tokens instead of {}", static_cast<std::int64_t>(left) / 16 * 16, task.context()));
  ways.push_back(format("GPUs of {} instead of {}", serving_gb(gpu.memory + missing / (1 - task.memory_reserve)),
                        serving_gb(gpu.memory)));
  return Error{
      ErrorCode::unavailable,
      format("no server of this model fits: nearest is {}, which needs {} more on each {} ({} of weights, {} of "
             "activations, {} of cache for one request)",
             describe_serving(nearest.layout), serving_gb(missing), gpu.key, serving_gb(nearest.memory.weights),
             serving_gb(nearest.memory.activations + nearest.memory.logits),
             serving_gb(nearest.memory.cache_token * static_cast<double>(task.context()))),
      {},
      "what would make it fit: " + join(ways, ", or ")};
}

std::string winner_reason(const ServingTask& task, const ServingCandidate& w) {
  const char* goal = task.goal == ServingGoal::throughput ? "most tokens/s" : "shortest answers";
  std::vector<std::string> under;
  if (task.itl_max > 0) under.push_back("ITL <= " + serving_ms(task.itl_max));
  if (task.ttft_max > 0) under.push_back("TTFT <= " + serving_ms(task.ttft_max));
  std::string text = goal;
  if (!under.empty()) text += format(" with {} for {:.4g} % of them", join(under, " and "), task.percentile * 100);
  if (w.layout.slots < w.slots_fit)
    text += format("; memory has room for {} slots", w.slots_fit);
  else
    text += "; as many slots as fit into memory";
  if (w.rates.prefill_share >= 0.999) text += "; reading prompts is the limit";
  return text;
}

std::vector<std::string> serving_notes(const ServingTask& task, const ServingPlace& place, const ServingCandidate& w) {
  std::vector<std::string> notes;
  const int idle = task.gpus - w.layout.replicas * w.layout.tp;
  if (idle > 0)
    notes.push_back(
        format("{} of {} GPUs stay idle: {} replicas of {}", idle, task.gpus, w.layout.replicas, w.layout.tp));
  if (!place.cluster.gpu.measured)
    notes.push_back(format("no run on {} was measured: its shares of the peak are borrowed", place.cluster.gpu.key));
  if (task.request_rate > 0)
    notes.push_back(format("{:.3g} requests/s of {:.3g} that it could answer; {:.1f} are in a replica at a time",
                           task.request_rate, w.token_rate / static_cast<double>(task.answer_tokens),
                           w.rates.requests));
  if (w.layout.weights != WeightFormat::bf16 && w.layout.weights != WeightFormat::f32)
    notes.push_back(format("{} weights cost quality: measure it (the quantize stage compares perplexity)",
                           to_string(w.layout.weights)));
  return notes;
}

}  // namespace

Result<ServingPlan> plan_serving(const ModelShape& unresolved, const ServingTask& task, const Cluster& cluster,
                                 const TimeConstants& constants) {
  LH_TRY(const ModelShape shape, resolve_shape(unresolved));
  LH_CHECK(check_serving(shape, task, cluster));
  LH_TRY(const FrameworkProfile framework, constants.framework("longhaul"));
  ServingPlan plan;
  plan.task = task;
  plan.place = {cluster, constants.common, constants.serving, framework.attention_scale};
  const std::vector<ServingCandidate> all = serving_candidates(shape, task, plan.place);
  std::vector<const ServingCandidate*> every;
  for (const ServingCandidate& c : all) every.push_back(&c);
  const ServingCandidate* best = best_serving(task, every);
  if (best == nullptr)
    return make_error(ErrorCode::invalid_input,
                      format("no tensor parallelism of at most {} GPUs divides this model", task.gpus),
                      "use more GPUs");
  if (!best->fits) return no_server_fits(shape, task, plan.place, *best);
  if (!best->meets_targets)
    return make_error(ErrorCode::unavailable,
                      format("no server on {} x {} meets the targets: nearest is {}, with {}", task.gpus,
                             cluster.gpu.key, describe_serving(best->layout), missed_targets(task, *best)),
                      "raise the target, allow fewer bits, or add GPUs (more replicas for a rate, wider tp for ITL)");
  plan.winner = *best;
  plan.reason = winner_reason(task, *best);
  plan.considered = static_cast<int>(all.size());
  plan.fitting =
      static_cast<int>(std::count_if(all.begin(), all.end(), [](const ServingCandidate& c) { return c.fits; }));
  plan.alternatives = alternatives_of(shape, task, plan.place, all, plan.winner);
  plan.pareto = pareto_front(all);
  plan.notes = serving_notes(task, plan.place, plan.winner);
  return plan;
}

}  // namespace longhaul
