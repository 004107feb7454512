#include "engine/infer/generate/device_draws.h"

#include <algorithm>

namespace longhaul {

SampleRow DeviceDraws::row_of(const TextStep& step, std::size_t token) {
  SampleRow row;
  row.active = step.draw ? 1 : 0;
  if (!step.draw) return row;
  const SamplingParameters& p = *step.draw->sampling;
  row.temperature = p.temperature, row.top_p = p.top_p, row.top_k = p.top_k;
  row.repetition_penalty = p.repetition_penalty, row.presence_penalty = p.presence_penalty;
  row.frequency_penalty = p.frequency_penalty;
  row.seed = p.seed, row.stream = p.stream, row.position = step.draw->position + token;
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

Status DeviceDraws::pass(std::span<const TextStep> steps, const std::vector<Row>& rows,
                         std::vector<std::int32_t>& drawn) {
  if (rows.empty()) return {};
  std::vector<SequenceStep> parts;
  std::vector<SampleRow> draws;
  bool any = false, any_logprob = false;
  for (const Row& row : rows) {
    const std::optional<TokenDraw>& draw = steps[row.step].draw;
    parts.push_back(row.part);
    draws.push_back(row_of(steps[row.step], row.token));
    any |= draw.has_value(), any_logprob |= draw && draw->logprob != nullptr;
  }
  if (!any) return model_.forward(context_, parts, LogitsWanted::none, {});
  std::vector<std::int32_t> tokens(rows.size());
  std::vector<double> logprobs(any_logprob ? rows.size() : 0);
  LH_CHECK(model_.draw(context_, parts, draws, tokens, logprobs));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<TokenDraw>& draw = steps[rows[i].step].draw;
    (draw && draw->tokens ? draw->tokens[rows[i].token] : drawn[rows[i].step]) = tokens[i];
    if (draw && draw->logprob != nullptr) draw->logprob[rows[i].token] = logprobs[i];
  }
  return {};
}

Status DeviceDraws::draw(std::span<const TextStep> steps, std::vector<std::int32_t>& drawn) {
  std::vector<Row> decodes, prompts;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TextStep& step = steps[i];
    KvCache* const cache = &caches_[static_cast<std::size_t>(step.slot)];
    if (step.draw && (step.tokens.size() == 1 || step.draw->tokens))
      for (std::size_t t = 0; t < step.tokens.size(); ++t)
        decodes.push_back({i, t, {cache, step.tokens.subspan(t, 1)}});
    else if (step.draw || step.wanted == TextStep::Logits::none)
      prompts.push_back({i, 0, {cache, step.tokens}});
  }
  LH_CHECK(pass(steps, prompts, drawn));
  return pass(steps, decodes, drawn);
}

}  // namespace longhaul
