// A request for text, and what its listener hears of the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "engine/infer/generate/sampling.h"
#include "engine/infer/generate/text_model.h"

namespace longhaul {

enum class FinishReason { stop, length, deadline, cancelled, error };
const char* to_string(FinishReason reason);

// A token with its text, as a client sees it.
struct GeneratedToken {
  std::int32_t token = 0;
  std::int64_t text_offset = 0;   // characters (code points) before it in prompt and answer
  std::optional<double> logprob;  // none for the first token of a prompt
  std::vector<TokenLogprob> top;
};

struct GenerationUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t held_tokens = 0;        // of these, that the model held already and did not read
  std::int64_t completion_tokens = 0;  // sampled tokens, the end token included
  std::int32_t end_token = -1;         // that ended the answer; -1: none did
  double end_logprob = 0;              // its own, where log-probabilities were asked for
  std::int64_t drafted_tokens = 0;     // guessed, with GenerationRequest::draft_tokens
  std::int64_t accepted_tokens = 0;    // of them, which were then drawn
  std::int64_t decode_steps = 0;       // of the model, those of the prompt apart
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // not empty
  SamplingParameters sampling;
  std::vector<std::string> stops;  // matched in the text, not part of the answer
  std::int64_t max_tokens = 16;    // 0: only read the prompt
  // The prompt comes back before the answer. With log-probabilities the token that ends the answer is then among the
  // tokens, without text: who scores prompts counts on a last token that is not the prompt's.
  bool echo = false;
  bool show_special = false;           // control tokens are written by their names; the end token never
  std::optional<int> logprobs;         // log-probabilities, with so many alternatives
  std::int64_t deadline_ms = 120'000;  // from submission to end, waiting included
  // So many of the next tokens at most are guessed from the text (ngram_draft.h) and computed in one step. Each is
  // drawn as ever, and what was guessed counts up to the first that is not drawn: a guess is accepted with the
  // probability that the token has, and what comes in its place is drawn from the others (Leviathan et al. 2023, "Fast
  // inference from transformers via speculative decoding", section 2.3, with a guess that is certain). So the answers
  // are those of 0, but for the last bits of logits of steps of other sizes. Where the model forgets tokens, and where
  // it draws, it draws behind each (TextModelInfo::draws_each) and there are no penalties.
  std::int64_t draft_tokens = 0;
};

// Called on the generator's thread; must not block and must not call the generator.
struct GenerationListener {
  virtual ~GenerationListener() = default;
  // New text (whole characters) and, if asked for, its tokens. Either may be empty.
  virtual void on_text(const std::string& text, const std::vector<GeneratedToken>& tokens) = 0;
  virtual void on_end(FinishReason reason, const GenerationUsage& usage, const std::string& error) = 0;
};

// invalid_input: a request that such a model cannot serve at all, whatever else it does.
Status check_request(const GenerationRequest& request, const TextModelInfo& info);

}  // namespace longhaul
