#include "autotune/inference/serving_search.h"

#include <algorithm>
#include <cmath>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

bool serving_tp_divides(const ModelShape& shape, int tp) {
  const std::int64_t kv = shape.num_key_value_heads;
  const std::int64_t inner = shape.is_moe() ? shape.moe_intermediate_size : shape.intermediate_size;
  return shape.num_attention_heads % tp == 0 && (kv % tp == 0 || tp % kv == 0) && inner % tp == 0;
}

std::string serving_tp_choices(const ModelShape& shape, int most) {
  std::vector<std::string> all;
  for (int tp = 1; tp <= most; ++tp)
    if (serving_tp_divides(shape, tp)) all.push_back(std::to_string(tp));
  return join(all, ", ");
}

void check_serving_lengths(const ModelShape& shape, const ServingTask& task, Diagnostics& problems) {
  const auto wrong = [&](const std::string& what, const std::string& hint) { problems.add({}, what, hint); };
  if (task.prompt_tokens < 1 || task.answer_tokens < 1)
    wrong(format("a prompt of {} and an answer of {} tokens cannot be served", task.prompt_tokens, task.answer_tokens),
          "both have at least 1");
  if (task.context_length > 0 && task.context_length < task.prompt_tokens + task.answer_tokens)
    wrong(format("context_length = {} does not hold a prompt of {} and an answer of {} tokens", task.context_length,
                 task.prompt_tokens, task.answer_tokens),
          "leave it 0 for their sum");
  if (task.context() > shape.max_position_embeddings)
    wrong(format("a context of {} tokens is longer than the model's max_position_embeddings = {}", task.context(),
                 shape.max_position_embeddings),
          "shorten prompt or answer");
  if (shape.vocab_size < 1) wrong("the model has no vocabulary", "resolve its shape with the tokenizer first");
}

}  // namespace

Status check_serving(const ModelShape& shape, const ServingTask& task, const Cluster& cluster) {
  Diagnostics problems;
  const auto wrong = [&](const std::string& what, const std::string& hint) { problems.add({}, what, hint); };
  check_serving_lengths(shape, task, problems);
  if (!(task.percentile > 0 && task.percentile < 1))
    wrong(format("percentile = {} is no share", task.percentile), "0.95 means that 95 of 100 meet the targets");
  if (task.gpus < 1 || task.concurrency < 1 || task.slots_max < 1)
    wrong("gpus, concurrency and slots_max are at least 1", "");
  if (task.request_rate < 0 || task.ttft_max < 0 || task.itl_max < 0)
    wrong("request_rate, ttft_max and itl_max cannot be negative", "0 asks for nothing");
  if (!(task.memory_reserve >= 0 && task.memory_reserve < 1))
    wrong(format("memory_reserve = {} is no share of a GPU's memory", task.memory_reserve), "0.1 leaves a tenth free");
  if (task.weights.empty() || task.caches.empty() || task.chunks.empty() || task.blocks.empty())
    wrong("weights, caches, chunks and blocks each name at least one choice", "");
  for (const std::vector<int>* sizes : {&task.chunks, &task.blocks})
    for (const int size : *sizes)
      if (size < 1) wrong(format("{} tokens are no chunk or block", size), "both have at least 1");
  if (task.tp > 0) {
    const int most = std::min(task.gpus, cluster.domain);
    if (task.tp > task.gpus)
      wrong(format("tp = {} needs more than gpus = {}", task.tp, task.gpus), "raise gpus or lower tp");
    else if (task.tp > cluster.domain)
      wrong(format("tp = {} is wider than the {} GPUs that fast links join", task.tp, cluster.domain),
            "two sums a layer and token over the network are too slow to serve with");
    if (!serving_tp_divides(shape, task.tp))
      wrong(format("tp = {} does not divide num_attention_heads = {}, num_key_value_heads = {} and the inner width",
                   task.tp, shape.num_attention_heads, shape.num_key_value_heads),
            "use tp = " + serving_tp_choices(shape, most));
  }
  const GpuType& gpu = cluster.gpu;
  const auto any = [&](const auto& formats) {
    return std::any_of(formats.begin(), formats.end(), [&](auto f) { return gpu_has(gpu, f); });
  };
  if (!task.weights.empty() && !any(task.weights))
    wrong(format("{} has no products for any of the weights that are allowed", gpu.key), "allow bf16");
  if (!task.caches.empty() && !any(task.caches))
    wrong(format("{} has none of the cache formats that are allowed", gpu.key), "allow bf16");
  return problems.to_status("nothing can be planned");
}

std::vector<int> serving_tp_sizes(const ModelShape& shape, const ServingTask& task, const Cluster& cluster) {
  if (task.tp > 0) return {task.tp};
  std::vector<int> sizes;
  for (int tp = 1; tp <= std::min(task.gpus, cluster.domain); ++tp)
    if (serving_tp_divides(shape, tp)) sizes.push_back(tp);
  return sizes;
}

ServingCandidate serving_candidate(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                   const ServingPlace& place) {
  ServingCandidate c;
  c.layout = layout;
  c.memory = serving_memory(shape, task, layout, place.cluster.gpu);
  c.slots_fit = slots_that_fit(shape, task, layout, place.cluster.gpu);
  c.fits = c.slots_fit >= layout.slots;
  if (!c.fits) return c;
  const double replicas = layout.replicas;
  if (task.request_rate > 0) {
    c.rates = rates_at_load(shape, task, layout, place, task.request_rate / replicas);
    c.token_rate = replicas * rates_at_concurrency(shape, task, layout, place, layout.slots).token_rate;
  } else {
    // For latency as many as ask, spread over the replicas; for throughput all slots are always taken.
    const double each = std::ceil(task.concurrency / replicas);
    const bool few = task.goal == ServingGoal::latency;
    c.rates =
        rates_at_concurrency(shape, task, layout, place, few ? std::min<double>(each, layout.slots) : layout.slots);
    if (few && each > layout.slots) {
      // The others wait for a slot (Little's law).
      c.rates.wait_mean = (each - layout.slots) / c.rates.request_rate;
      c.rates.ttft_mean += c.rates.wait_mean, c.rates.ttft += c.rates.wait_mean;
    }
    c.token_rate = replicas * c.rates.token_rate;
  }
  c.gpu_token_rate = c.token_rate / (replicas * layout.tp);
  const ServingRates& r = c.rates;
  c.meets_targets =
      !r.overloaded && (task.ttft_max <= 0 || r.ttft <= task.ttft_max) && (task.itl_max <= 0 || r.itl <= task.itl_max);
  return c;
}

namespace {

// 1, 2, 3, 4, 6, 8, 12, ... and the most that fit.
std::vector<int> slot_choices(int most) {
  std::vector<int> all;
  for (int power = 1; power < most; power *= 2) {
    all.push_back(power);
    if (power > 1 && power / 2 * 3 < most) all.push_back(power / 2 * 3);
  }
  all.push_back(most);
  return all;
}

// The block size with most slots; of equal ones the largest, which has the shortest tables.
ServingLayout with_best_block(const ModelShape& shape, const ServingTask& task, ServingLayout layout,
                              const GpuType& gpu) {
  int best = 0, most = -1;
  for (const int block : task.blocks) {
    layout.block = block;
    const int slots = slots_that_fit(shape, task, layout, gpu);
    if (slots > most || (slots == most && block > best)) best = block, most = slots;
  }
  layout.block = best, layout.slots = std::max(most, 0);
  return layout;
}

}  // namespace

std::vector<ServingCandidate> serving_candidates(const ModelShape& shape, const ServingTask& task,
                                                 const ServingPlace& place) {
  std::vector<ServingCandidate> all;
  const GpuType& gpu = place.cluster.gpu;
  for (const int tp : serving_tp_sizes(shape, task, place.cluster)) {
    for (const WeightFormat weights : task.weights) {
      for (const CacheFormat cache : task.caches) {
        if (!gpu_has(gpu, weights) || !gpu_has(gpu, cache)) continue;
        bool any = false;
        std::int64_t last = 0;  // a chunk longer than the context is as good as the next smaller one that holds it
        for (const int chunk : task.chunks) {
          if (last >= task.context() * 4) break;
          last = chunk;
          const ServingLayout layout =
              with_best_block(shape, task, {tp, task.gpus / tp, weights, cache, 1, task.blocks.front(), chunk}, gpu);
          if (layout.slots < 1) continue;
          any = true;
          for (const int slots : slot_choices(layout.slots)) {
            ServingLayout one = layout;
            one.slots = slots;
            all.push_back(serving_candidate(shape, task, one, place));
          }
        }
        if (!any)
          all.push_back(serving_candidate(
              shape, task, {tp, task.gpus / tp, weights, cache, 1, task.blocks.front(), task.chunks.front()}, place));
      }
    }
  }
  return all;
}

namespace {

// Seconds by which targets are missed, as a share of them.
double targets_missed_by(const ServingTask& task, const ServingCandidate& c) {
  double missed = c.rates.overloaded ? 1e3 : 0;
  if (task.ttft_max > 0) missed += std::max(0.0, c.rates.ttft / task.ttft_max - 1);
  if (task.itl_max > 0) missed += std::max(0.0, c.rates.itl / task.itl_max - 1);
  return missed;
}

}  // namespace

namespace {

double serving_goal_of(ServingGoal goal, const ServingTask& task, const ServingCandidate& c) {
  return goal == ServingGoal::throughput ? c.token_rate : 1 / c.rates.latency(task.answer_tokens);
}

}  // namespace

bool is_better(const ServingTask& task, const ServingCandidate& a, const ServingCandidate& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.memory.room > b.memory.room;
  if (a.meets_targets != b.meets_targets) return a.meets_targets;
  if (!a.meets_targets) return targets_missed_by(task, a) < targets_missed_by(task, b);
  return serving_goal_of(task.goal, task, a) > serving_goal_of(task.goal, task, b);
}

const ServingCandidate* best_serving(const ServingTask& task, const std::vector<const ServingCandidate*>& all) {
  const ServingCandidate* best = nullptr;
  for (const ServingCandidate* c : all)
    if (best == nullptr || is_better(task, *c, *best)) best = c;
  if (best == nullptr || !best->meets_targets) return best;
  const ServingGoal other = task.goal == ServingGoal::throughput ? ServingGoal::latency : ServingGoal::throughput;
  const double enough = 0.99 * serving_goal_of(task.goal, task, *best);
  for (const ServingCandidate* c : all)
    if (c->fits && c->meets_targets && serving_goal_of(task.goal, task, *c) >= enough &&
        serving_goal_of(other, task, *c) > serving_goal_of(other, task, *best))
      best = c;
  return best;
}

std::vector<ServingCandidate> pareto_front(const std::vector<ServingCandidate>& all) {
  std::vector<ServingCandidate> sorted;
  std::copy_if(all.begin(), all.end(), std::back_inserter(sorted),
               [](const ServingCandidate& c) { return c.fits && !c.rates.overloaded; });
  std::sort(sorted.begin(), sorted.end(), [](const ServingCandidate& a, const ServingCandidate& b) {
    if (a.rates.itl != b.rates.itl) return a.rates.itl < b.rates.itl;
    return a.token_rate > b.token_rate;
  });
  std::vector<ServingCandidate> front;
  for (const ServingCandidate& c : sorted)
    if (front.empty() || c.token_rate > 1.01 * front.back().token_rate) front.push_back(c);
  return front;
}

}  // namespace longhaul
