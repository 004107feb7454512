// One answer as it grows: which tokens the model reads next, what a drawn token means, when the text ends, and what of
// it its listener hears. It knows nothing of other answers, slots, deadlines or threads.
//
//   prompt_step() until prompt_done(), then decode_step(); after each forward take(); at the end release_rest() and
//   end()
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/infer/generate/adaptive_draft.h"
#include "engine/infer/generate/generation.h"
#include "engine/infer/generate/text_model.h"
#include "engine/infer/generate/text_stream.h"

namespace longhaul {

class AnswerText {
 public:
  // `model` outlives it and is asked for its description and the text of tokens only.
  AnswerText(const TextModel& model, GenerationRequest request, std::shared_ptr<GenerationListener> listener);

  const GenerationRequest& request() const { return request_; }
  const GenerationUsage& usage() const { return usage_; }
  bool prompt_done() const { return prompt_done_; }
  std::int64_t prompt_read() const { return static_cast<std::int64_t>(read_); }  // tokens of it
  // The model holds its first `tokens` already, fewer than all; before the first step, and not where they are echoed.
  void begin_behind(std::int64_t tokens);

  // What the model in `slot` reads next: at most `budget` > 0 tokens of the prompt, or the last drawn token. What the
  // step names lives in this object until the next call of take().
  TextStep prompt_step(int slot, std::int64_t budget);
  // With at most `draft_max` guessed tokens behind the last drawn one.
  TextStep decode_step(int slot, std::int64_t draft_max = 0);

  // What the model has computed for `step`: the rows of logits that it wanted, [rows * vocabulary] (sampling works in
  // place), and the token that it drew, where it was to draw one. Why the answer ends now; nullopt: it goes on.
  std::optional<FinishReason> take(const TextStep& step, std::span<float> logits, std::int32_t drawn);

  // Tokens at the end of the last step that the model has to forget: guessed, and not drawn.
  std::int64_t rejected() const { return step_.rejected; }

  // What was held back as a possible stop text or half a character is text after all.
  void release_rest();
  void end(FinishReason reason, const std::string& error) { listener_->on_end(reason, usage_, error); }

 private:
  // Of one step.
  struct GuessedTokens {
    std::vector<std::int32_t> asked;     // the last token, and those guessed behind it
    std::vector<std::int32_t> drawn;     // behind each of them, where the model draws
    std::vector<double> drawn_logprobs;  // of these
    std::int64_t rejected = 0;           // guessed, and not drawn
  };

  void remember_prompt();
  std::optional<TokenDraw> draw();
  void take_prompt_logprobs(const TextStep& step, std::span<const float> logits);
  void finish_prompt();
  std::optional<FinishReason> draw_token(std::span<float> logits);
  std::optional<FinishReason> take_drafted(const TextStep& step, std::span<float> logits);
  // Number `row` of those that the model drew behind the step's tokens.
  std::optional<FinishReason> take_drawn(std::size_t row);
  // `logprobs`: where they are asked for.
  std::optional<FinishReason> take_token(std::int32_t token, PositionLogprobs logprobs);
  bool ends_with(std::int32_t token, double logprob);
  std::string text_of(std::int32_t token) const;
  void release(const std::string& bytes);

  const TextModel& model_;
  GenerationRequest request_;
  std::shared_ptr<GenerationListener> listener_;
  std::size_t read_ = 0;  // prompt tokens that the model has seen
  bool prompt_done_ = false;
  TokenLogprob last_{-1, 0};            // token; its log-probability where the model has drawn both
  std::optional<AdaptiveDraft> draft_;  // where tokens are guessed
  GuessedTokens step_;
  TokenHistory history_;
  GenerationUsage usage_;
  Utf8Gate gate_;
  StopFilter stops_;
  std::int64_t text_characters_ = 0;     // decoded so far, for text_offset
  std::vector<GeneratedToken> pending_;  // not yet given to the listener
};

}  // namespace longhaul
