#include "autotune/inference/rollout_time.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

namespace {

class RolloutClock {
 public:
  RolloutClock(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place, const RolloutWork& work)
      : shape_(shape), layout_(layout), place_(place), work_(work) {}

  // `count` answers that begin together.
  double drawn_together(double count) const {
    const double groups = std::ceil(count / work_.group), followers = count - groups;
    double seconds = prompts(groups);
    if (followers > 0)  // have the prompt but for its last token
      seconds += step({.prefill = followers, .prefill_before = work_.prompt_tokens, .ended_prompts = followers});
    const double context = work_.prompt_tokens + work_.answer_tokens / 2;
    return seconds + (work_.answer_tokens - 1) * step({.decodes = count, .context = context});
  }
  double compared() const {
    const double groups = std::ceil(work_.answers / work_.group), answer = work_.answer_tokens;
    const double prompt = step({.prefill = work_.prompt_tokens, .prefill_before = work_.prompt_tokens / 2});
    return groups * prompt +
           work_.answers *
               step({.prefill = answer, .prefill_before = work_.prompt_tokens + answer / 2, .ended_prompts = answer});
  }

 private:
  double step(const StepWork& of) const { return serving_step_time(shape_, layout_, place_, of).total(); }
  double prompts(double groups) const {
    const double tokens = groups * work_.prompt_tokens, steps = std::max(1.0, std::ceil(tokens / work_.chunk));
    return steps *
           step(
               {.prefill = tokens / steps, .prefill_before = work_.prompt_tokens / 2, .ended_prompts = groups / steps});
  }

  const ModelShape& shape_;
  const ServingLayout& layout_;
  const ServingPlace& place_;
  const RolloutWork& work_;
};

ModelShape timed_shape(const TimedRollout& timed) {
  ModelShape shape;
  shape.hidden_size = timed.hidden, shape.num_hidden_layers = timed.layers;
  shape.num_attention_heads = timed.heads, shape.num_key_value_heads = timed.kv_heads;
  shape.head_dim = timed.hidden / timed.heads;
  shape.intermediate_size = timed.feed_forward, shape.vocab_size = timed.vocabulary;
  shape.max_position_embeddings = timed.prompt_tokens + timed.answer_tokens;
  return shape;
}

RolloutWork timed_work(const TimedRollout& timed) {
  RolloutWork work;
  work.answers = work.slots = static_cast<double>(timed.answers), work.group = static_cast<double>(timed.group);
  work.prompt_tokens = static_cast<double>(timed.prompt_tokens);
  work.answer_tokens = static_cast<double>(timed.answer_tokens);
  work.reference = true;
  return work;
}

}  // namespace

RolloutTime rollout_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                         const RolloutWork& work) {
  const RolloutClock clock(shape, layout, place, work);
  const double waves = std::floor(work.answers / work.slots), rest = work.answers - waves * work.slots;
  RolloutTime time;
  if (waves > 0) time.generate += waves * clock.drawn_together(work.slots);
  if (rest > 0) time.generate += clock.drawn_together(rest);
  if (work.reference && work.answers > 0) time.reference = clock.compared();
  time.generate *= place.drawing, time.reference *= place.scoring;
  return time;
}

RolloutFactors rollout_factors(const ServingSpeed& speed, std::span<const TimedRollout> timed, bool f32) {
  ServingLayout layout;
  layout.weights = f32 ? WeightFormat::f32 : WeightFormat::bf16;
  layout.cache = f32 ? CacheFormat::f32 : CacheFormat::bf16;
  ServingPlace place;
  place.processor = speed;
  double drawing = 0, scoring = 0;
  for (const TimedRollout& one : timed) {
    const RolloutTime of_operations = rollout_time(timed_shape(one), layout, place, timed_work(one));
    drawing += std::log(one.generate_seconds / of_operations.generate);
    scoring += std::log(one.reference_seconds / of_operations.reference);
  }
  const double count = std::max(1.0, static_cast<double>(timed.size()));
  return {std::exp(drawing / count), std::exp(scoring / count)};
}

double seconds_beside(const SharedSeconds& mine, const SharedSeconds& other) {
  if (mine.beside <= other.beside) return mine.beside;
  const double left = 1 - other.beside / mine.beside;
  return other.beside + left * std::min(mine.alone, mine.beside);
}

double take_weights_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place) {
  const double written = layout.weights == WeightFormat::f32 ? 4 : 2, rate = place.cluster.gpu.memory_rate;
  return rate > 0 ? static_cast<double>(shape.parameter_count()) * (4 + written) / rate : 0;
}

double tree_hops(int receivers) {
  return std::ceil(std::log2(receivers + 1.0));
}

double hand_over_time(const ModelShape& shape, const ServingPlace& place, int receivers, bool one_node) {
  const double bytes = 4 * static_cast<double>(shape.parameter_count());
  const double memory_rate = place.cluster.gpu.memory_rate, card_rate = place.cluster.nic_rate;
  const double copy = memory_rate > 0 ? 2 * bytes / memory_rate : 0;  // read and written
  const double sent = one_node ? 2 * copy : card_rate > 0 ? bytes / card_rate : 0;
  return 2 * copy + tree_hops(receivers) * sent;
}

}  // namespace longhaul
