#include "engine/infer/generate/device_draws.h"

#include <algorithm>

namespace longhaul {

SampleRow DeviceDraws::row_of(const TextStep& step) {
  SampleRow row;
  row.active = step.draw ? 1 : 0;
  if (!step.draw) return row;
  const SamplingParameters& p = *step.draw->sampling;
  row.temperature = p.temperature, row.top_p = p.top_p, row.top_k = p.top_k;
  row.repetition_penalty = p.repetition_penalty, row.presence_penalty = p.presence_penalty;
  row.frequency_penalty = p.frequency_penalty;
  row.seed = p.seed, row.stream = p.stream, row.position = step.draw->position;
  if (!has_penalties(p)) return row;
  row.seen_row = step.slot;
  std::int64_t& until = seen_until_[static_cast<std::size_t>(step.slot)];
  if (until != static_cast<std::int64_t>(row.position)) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(model_.shape().vocab_size));
    for (const auto& [token, times] : step.draw->history->seen()) counts[static_cast<std::size_t>(token)] = 1 + times;
    model_.set_seen(context_, step.slot, counts);
  }
  until = static_cast<std::int64_t>(row.position) + 1;
  return row;
}

Status DeviceDraws::pass(std::span<const TextStep> steps, const std::vector<std::size_t>& which,
                         std::vector<std::int32_t>& drawn) {
  if (which.empty()) return {};
  std::vector<SequenceStep> sequence_steps;
  std::vector<SampleRow> rows;
  bool any = false, any_logprob = false;
  for (const std::size_t i : which) {
    sequence_steps.push_back({&caches_[static_cast<std::size_t>(steps[i].slot)], steps[i].tokens});
    rows.push_back(row_of(steps[i]));
    any |= steps[i].draw.has_value();
    any_logprob |= steps[i].draw && steps[i].draw->logprob != nullptr;
  }
  if (!any) return model_.forward(context_, sequence_steps, LogitsWanted::none, {});
  std::vector<std::int32_t> tokens(which.size());
  std::vector<double> logprobs(any_logprob ? which.size() : 0);
  LH_CHECK(model_.draw(context_, sequence_steps, rows, tokens, logprobs));
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::optional<TokenDraw>& draw = steps[which[i]].draw;
    drawn[which[i]] = tokens[i];
    if (draw && draw->logprob != nullptr) *draw->logprob = logprobs[i];
  }
  return {};
}

Status DeviceDraws::draw(std::span<const TextStep> steps, std::vector<std::int32_t>& drawn) {
  std::vector<std::size_t> decodes, prompts;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].draw && steps[i].tokens.size() == 1)
      decodes.push_back(i);
    else if (steps[i].draw || steps[i].wanted == TextStep::Logits::none)
      prompts.push_back(i);
  }
  LH_CHECK(pass(steps, prompts, drawn));
  return pass(steps, decodes, drawn);
}

}  // namespace longhaul
