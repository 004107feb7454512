#include "engine/infer/generate/generation.h"

#include "base/text/text.h"

namespace longhaul {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::deadline: return "deadline";
    case FinishReason::cancelled: return "cancelled";
    case FinishReason::error: return "error";
  }
  return "error";
}

Status check_request(const GenerationRequest& request, const TextModelInfo& info) {
  LH_CHECK(check_sampling(request.sampling));
  if (request.prompt.empty()) return make_error(ErrorCode::invalid_input, "the prompt has no token");
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (request.max_tokens < 0 || length + request.max_tokens > info.context_length)
    return make_error(ErrorCode::invalid_input,
                      format("{} tokens of prompt and {} of answer do not fit the model's context of {}", length,
                             request.max_tokens, info.context_length),
                      "shorten the prompt or ask for fewer tokens");
  const bool guesses = info.forgets && (!info.draws || (info.draws_each && !has_penalties(request.sampling)));
  if (request.draft_tokens < 0 || (request.draft_tokens > 0 && !guesses))
    return make_error(ErrorCode::invalid_input,
                      format("draft_tokens = {}, and this model computes no guessed tokens{}", request.draft_tokens,
                             info.forgets && info.draws_each ? " for answers with penalties" : ""),
                      "leave it out");
  for (const std::int32_t token : request.prompt)
    if (token < 0 || token >= info.vocabulary)
      return make_error(ErrorCode::invalid_input,
                        format("token {} of the prompt is outside of the vocabulary of {}", token, info.vocabulary));
  return {};
}

}  // namespace longhaul
