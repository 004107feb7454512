// What generation needs from a model: text to tokens and back, and one step for several sequences at once. Implemented
// over the engine's model (inference_text_model.h) and by a fake in the tests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/template/chat.h"
#include "engine/infer/generate/sampling.h"

namespace longhaul {

struct TextModelInfo {
  std::int64_t vocabulary = 0;           // logits per position
  std::int64_t context_length = 0;       // tokens of prompt and answer together
  int slots = 1;                         // sequences that can be held at the same time
  std::vector<std::int32_t> end_tokens;  // any of them ends an answer
  bool draws = false;                    // it draws tokens itself: TextStep::draw
  bool draws_logprobs = false;           // and says how likely they were: TokenDraw::logprob
  bool draws_each = false;               // also behind each token of a step: TokenDraw::tokens
  bool marks_tool_calls = false;         // calls of tools stand between <tool_call> and </tool_call>
  bool copies = false;                   // copy_beginning() is there
  bool forgets = false;                  // forget_last() is there
  bool keeps = false;                    // held() is there: slots keep their texts for texts that go on from them
};

// Where texts lie in pages of one pool; all 0 where each slot has memory of its own.
struct CachePages {
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t promised = 0;  // to texts that run, those in use among them
};

// The token that follows a step, as sample_token() draws it. What is named lives until forward() comes back.
struct TokenDraw {
  const SamplingParameters* sampling = nullptr;
  const TokenHistory* history = nullptr;
  std::uint64_t position = 0;
  // Where the token's log-probability by the model itself goes (TokenLogprob); null: nobody asks for it.
  double* logprob = nullptr;
  // With Logits::all a token is drawn behind each token of the step, as if those before it were right: of `position`,
  // the next one, and so on, without penalties. They go here, and their log-probabilities to `logprob`: as many as the
  // step has tokens. Else null.
  std::int32_t* tokens = nullptr;
};

// Part of one forward step: `tokens` are appended to the sequence held in `slot`.
struct TextStep {
  enum class Logits { none, last, all };  // of no token of this step, of its last one, of every one
  int slot = 0;
  std::span<const std::int32_t> tokens;
  Logits wanted = Logits::last;
  // With Logits::last, where the model draws: the token comes back instead of logits; with Logits::all, where it draws
  // behind each token, TokenDraw::tokens do. An answer's draws are all here or none.
  std::optional<TokenDraw> draw = std::nullopt;
};

class TextModel {
 public:
  virtual ~TextModel() = default;
  virtual const TextModelInfo& info() const = 0;

  // Text; thread-safe.
  virtual Result<std::vector<std::int32_t>> encode(std::string_view text) const = 0;
  // The same with what the tokenizer's post-processor puts around a text, such as a begin token.
  virtual Result<std::vector<std::int32_t>> encode_with_special(std::string_view text) const { return encode(text); }
  // The prompt of a conversation, ready for the assistant's answer; where the last message is the assistant's, its
  // answer is begun and goes on. `tools`: what it may call, a list or null.
  virtual Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages,
                                                        const Value& tools) const = 0;
  // Bytes of a token; may begin or end inside a UTF-8 character. Empty for control tokens, but those that mark calls.
  virtual std::string token_bytes(std::int32_t token) const = 0;
  // What a person calls the token: its bytes, or the name of a control token.
  virtual std::string token_name(std::int32_t token) const { return token_bytes(token); }

  // Room for a text of `tokens` in an empty slot. False: there is none until others have been reset. Room for one text
  // of context_length is always there once all slots are.
  virtual bool reserve([[maybe_unused]] int slot, [[maybe_unused]] std::int64_t tokens) { return true; }
  virtual CachePages pages() const { return {}; }

  // Where info().copies: the first `tokens` of what slot `from` holds, into slot `to`, which is empty, so that texts
  // that begin alike are read once. How many it holds then, which may be fewer, comes back.
  virtual std::int64_t copy_beginning([[maybe_unused]] int from, [[maybe_unused]] int to,
                                      [[maybe_unused]] std::int64_t tokens) {
    LH_ASSERT(false, "this model copies no beginnings");
    return 0;
  }
  // Where info().forgets: the last `tokens` of what the slot holds are forgotten.
  virtual void forget_last([[maybe_unused]] int slot, [[maybe_unused]] std::int64_t tokens) {
    LH_ASSERT(false, "this model forgets no tokens");
  }

  // Where info().keeps, which takes room for the longest text in every slot: the tokens that a slot holds, also of a
  // text that has ended, until the next call that changes the slot. A text that begins with all of them may go on
  // there; for any other one the slot is reset first.
  virtual std::span<const std::int32_t> held([[maybe_unused]] int slot) const { return {}; }

  // Sequences; one thread at a time. reset() empties a slot and takes its room back; forward() appends to the slots
  // named in `steps` (each at most once), fills `logits` with [rows, vocabulary], rows in the order of the steps, and
  // `drawn` with a token for each step, -1 where none was to be drawn, or several.
  virtual void reset(int slot) = 0;
  virtual Status forward(std::span<const TextStep> steps, std::vector<float>& logits,
                         std::vector<std::int32_t>& drawn) = 0;
};

}  // namespace longhaul
