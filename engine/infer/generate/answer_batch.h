// Many prompts answered together, to their end: what a training asks for between two steps. The answers depend on their
// sampling parameters and on which prompts there are, not on how long anything took.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/infer/generate/sampling.h"
#include "engine/infer/generate/text_model.h"

namespace longhaul {

struct AnswerRequest {
  std::span<const std::int32_t> prompt;
  SamplingParameters sampling;
  std::vector<std::string> stops = {};  // texts that end the answer, and are no part of it
  std::int64_t max_tokens = 0;          // where it is less than that of all; 0: it is that
};
struct GeneratedAnswer {
  std::vector<std::int32_t> tokens;                          // the token that ended it included
  std::vector<double> logprobs;                              // of each, by the model itself (sampling.h)
  std::string text;                                          // without control tokens
  bool cut = false;                                          // it had no end at max_tokens
  std::int64_t read = 0;                                     // tokens of its prompt that were computed for it
  std::int64_t drafted = 0, accepted = 0, decode_steps = 0;  // of tokens that were guessed; GenerationUsage
};
struct AnswerBatchOptions {
  std::int64_t max_tokens = 16;
  std::int64_t draft_tokens = 0;         // GenerationRequest::draft_tokens
  std::int64_t prefill_tokens = 256;     // of all prompts, per step
  std::int64_t decode_tokens = 64;       // of all running answers, per step (GeneratorLimits)
  std::int64_t deadline_ms = 3'600'000;  // of all answers; an error (timeout) after it
  std::function<void()> between;         // steps; may be empty
};

// In the order of the requests. Where the model keeps texts, those that go on from one begin first.
Result<std::vector<GeneratedAnswer>> generate_answers(TextModel& model, const Clock& clock,
                                                      std::span<const AnswerRequest> requests,
                                                      const AnswerBatchOptions& options);

}  // namespace longhaul
