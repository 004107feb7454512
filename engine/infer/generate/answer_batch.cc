#include "engine/infer/generate/answer_batch.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/text/text.h"
#include "engine/infer/generate/generator.h"

namespace longhaul {

namespace {

struct AnswerListener final : GenerationListener {
  GeneratedAnswer answer;
  bool ended = false;
  FinishReason reason = FinishReason::error;
  std::string problem;

  void on_text(const std::string& text, const std::vector<GeneratedToken>& tokens) override {
    answer.text += text;
    for (const GeneratedToken& token : tokens) put(token.token, token.logprob.value_or(0));
  }
  void on_end(FinishReason why, const GenerationUsage& usage, const std::string& error) override {
    if (usage.end_token >= 0) put(usage.end_token, usage.end_logprob);
    ended = true, reason = why, problem = error;
    answer.drafted = usage.drafted_tokens, answer.accepted = usage.accepted_tokens;
    answer.decode_steps = usage.decode_steps;
    answer.read = usage.prompt_tokens - usage.held_tokens;
    answer.cut = why == FinishReason::length;
  }
  void put(std::int32_t token, double logprob) { answer.tokens.push_back(token), answer.logprobs.push_back(logprob); }
};

// In which order they begin: those first for which the model holds most, else as they came.
std::vector<std::size_t> order_of(const TextModel& model, std::span<const AnswerRequest> requests) {
  std::vector<std::int64_t> held(requests.size(), 0);
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!model.info().keeps) return order;
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (int slot = 0; slot < model.info().slots; ++slot)
      held[i] = std::max(held[i], held_of(requests[i].prompt, model.held(slot)));
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return held[a] > held[b]; });
  return order;
}

}  // namespace

Result<std::vector<GeneratedAnswer>> generate_answers(TextModel& model, const Clock& clock,
                                                      std::span<const AnswerRequest> requests,
                                                      const AnswerBatchOptions& options) {
  GeneratorLimits limits;
  limits.queue_max = static_cast<int>(requests.size());
  limits.prefill_tokens = options.prefill_tokens, limits.decode_tokens = options.decode_tokens;
  Generator generator(model, clock, limits);
  std::vector<std::shared_ptr<AnswerListener>> listeners(requests.size());
  std::vector<Generator::Submission> all;
  for (const std::size_t i : order_of(model, requests)) {
    const AnswerRequest& request = requests[i];
    GenerationRequest asked;
    asked.prompt.assign(request.prompt.begin(), request.prompt.end());
    asked.sampling = request.sampling, asked.stops = request.stops;
    asked.draft_tokens = options.draft_tokens;
    asked.max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, options.max_tokens) : options.max_tokens;
    asked.logprobs = 0, asked.deadline_ms = options.deadline_ms;
    listeners[i] = std::make_shared<AnswerListener>();
    all.push_back({std::move(asked), listeners[i]});
  }
  LH_CHECK(generator.submit(std::move(all)));
  while (generator.step())
    if (options.between) options.between();
  std::vector<GeneratedAnswer> answers;
  for (const auto& listener : listeners) {
    LH_ASSERT(listener->ended, "an answer without an end");
    if (listener->reason == FinishReason::deadline)
      return make_error(ErrorCode::timeout,
                        format("{} answers took longer than {} s", requests.size(), options.deadline_ms / 1000));
    if (listener->reason == FinishReason::error) return make_error(ErrorCode::internal, listener->problem);
    answers.push_back(std::move(listener->answer));
  }
  return answers;
}

}  // namespace longhaul
