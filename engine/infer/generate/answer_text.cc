#include "engine/infer/generate/answer_text.h"

#include <algorithm>
#include <utility>

namespace longhaul {
namespace {

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

AnswerText::AnswerText(const TextModel& model, GenerationRequest request, std::shared_ptr<GenerationListener> listener)
    : model_(model), request_(std::move(request)), listener_(std::move(listener)), stops_(request_.stops) {
  usage_.prompt_tokens = static_cast<std::int64_t>(request_.prompt.size());
  if (request_.draft_tokens > 0) draft_.emplace(request_.prompt, request_.draft_tokens);
}

void AnswerText::remember_prompt() {
  for (const std::int32_t token : request_.prompt) history_.add_prompt(token);
}

void AnswerText::begin_behind(std::int64_t tokens) {
  LH_ASSERT(read_ == 0 && !request_.echo && tokens < static_cast<std::int64_t>(request_.prompt.size()),
            std::to_string(tokens));
  remember_prompt();
  read_ = static_cast<std::size_t>(tokens), usage_.held_tokens = tokens;
}

TextStep AnswerText::prompt_step(int slot, std::int64_t budget) {
  const std::span<const std::int32_t> prompt = request_.prompt;
  const std::size_t count = std::min(prompt.size() - read_, static_cast<std::size_t>(budget));
  if (read_ == 0) remember_prompt();
  const bool ends = read_ + count == prompt.size();
  auto wanted = ends ? TextStep::Logits::last : TextStep::Logits::none;
  if (request_.echo && request_.logprobs) wanted = TextStep::Logits::all;
  return {slot, prompt.subspan(read_, count), wanted, ends ? draw() : std::nullopt};
}

// All rows where tokens may be guessed, also when none is: those of one pass lie in one place.
TextStep AnswerText::decode_step(int slot, std::int64_t draft_max) {
  step_.asked = {last_.token};
  if (!draft_) return {slot, step_.asked, TextStep::Logits::last, draw()};
  const std::int64_t left = request_.max_tokens - usage_.completion_tokens - 1;
  const std::vector<std::int32_t> draft = draft_->next(std::min(draft_max, left));
  step_.asked.insert(step_.asked.end(), draft.begin(), draft.end());
  std::optional<TokenDraw> drawn = draw();
  if (drawn) {
    step_.drawn.resize(step_.asked.size()), step_.drawn_logprobs.resize(step_.asked.size());
    drawn->tokens = step_.drawn.data();
    if (drawn->logprob) drawn->logprob = step_.drawn_logprobs.data();
  }
  return {slot, step_.asked, TextStep::Logits::all, drawn};
}

// The next token is drawn by the model, where it draws and says what is asked for: no log-probabilities, or its own
// alone of each token.
std::optional<TokenDraw> AnswerText::draw() {
  const TextModelInfo& info = model_.info();
  if (!info.draws || request_.max_tokens == 0) return std::nullopt;
  if (request_.logprobs && (!info.draws_logprobs || *request_.logprobs > 0 || request_.echo)) return std::nullopt;
  return TokenDraw{&request_.sampling, &history_, static_cast<std::uint64_t>(usage_.completion_tokens),
                   request_.logprobs ? &last_.logprob : nullptr};
}

std::optional<FinishReason> AnswerText::take(const TextStep& step, std::span<float> logits, std::int32_t drawn) {
  step_.rejected = 0;
  if (prompt_done_ && step.wanted == TextStep::Logits::all) return take_drafted(step, logits);
  if (step.wanted == TextStep::Logits::all) take_prompt_logprobs(step, logits);
  if (prompt_done_) {
    ++usage_.decode_steps;
  } else {
    read_ += step.tokens.size();
    if (read_ < request_.prompt.size()) return std::nullopt;
    finish_prompt();
    if (request_.max_tokens == 0) return FinishReason::length;
  }
  if (step.draw)
    return take_token(drawn, step.draw->logprob ? PositionLogprobs{{drawn, last_.logprob}, {}} : PositionLogprobs());
  return draw_token(logits.last(static_cast<std::size_t>(model_.info().vocabulary)));
}

// logits[t] predict token t + 1, so the piece's last row belongs to the first token of the next piece: every row but
// the prompt's very last gives a log-probability of a prompt token.
void AnswerText::take_prompt_logprobs(const TextStep& step, std::span<const float> logits) {
  const auto vocabulary = static_cast<std::size_t>(model_.info().vocabulary);
  const std::vector<std::int32_t>& prompt = request_.prompt;
  if (read_ == 0) pending_.push_back({prompt[0], 0, std::nullopt, {}});
  for (std::size_t t = 0; t < step.tokens.size(); ++t) {
    const std::size_t next = read_ + t + 1;
    if (next >= prompt.size()) break;
    PositionLogprobs p = logprobs_of(logits.subspan(t * vocabulary, vocabulary), prompt[next], *request_.logprobs);
    pending_.push_back({prompt[next], 0, p.chosen.logprob, std::move(p.top)});
  }
}

void AnswerText::finish_prompt() {
  prompt_done_ = true;
  if (!request_.echo && !request_.logprobs) return;
  Utf8Gate gate;  // of its own: half a character at the prompt's end must not swallow the answer's beginning
  std::string text;
  std::size_t index = 0;
  for (const std::int32_t token : request_.prompt) {
    if (index < pending_.size()) pending_[index++].text_offset = count_characters(text);
    text += gate.push(text_of(token));
  }
  text += gate.finish();
  text_characters_ = count_characters(text);
  if (!request_.echo) return;
  listener_->on_text(text, pending_);
  pending_.clear();
}

// A row of logits, or a drawn token, for each token of the step: what is drawn says whether the next row's token was
// guessed rightly.
std::optional<FinishReason> AnswerText::take_drafted(const TextStep& step, std::span<float> logits) {
  const auto vocabulary = static_cast<std::size_t>(model_.info().vocabulary);
  const auto drafted = std::ssize(step.tokens) - 1;
  ++usage_.decode_steps;
  usage_.drafted_tokens += drafted;
  for (std::int64_t right = 0;; ++right) {
    const auto row = static_cast<std::size_t>(right);
    const auto reason = step.draw ? take_drawn(row) : draw_token(logits.subspan(row * vocabulary, vocabulary));
    const bool guessed = right < drafted && step.tokens[static_cast<std::size_t>(right) + 1] == last_.token;
    if (guessed) ++usage_.accepted_tokens;
    step_.rejected = drafted - right - (guessed ? 1 : 0);
    if (reason) return reason;
    if (guessed) continue;
    draft_->judge(drafted, right);
    return std::nullopt;
  }
}

std::optional<FinishReason> AnswerText::take_drawn(std::size_t row) {
  if (!request_.logprobs) return take_token(step_.drawn[row], {});
  return take_token(step_.drawn[row], {{step_.drawn[row], step_.drawn_logprobs[row]}, {}});
}

std::optional<FinishReason> AnswerText::draw_token(std::span<float> logits) {
  const auto position = static_cast<std::uint64_t>(usage_.completion_tokens);
  if (!request_.logprobs) return take_token(sample_token(logits, history_, request_.sampling, position), {});
  if (*request_.logprobs == 0) {
    const TokenLogprob drawn = sample_with_logprob(logits, history_, request_.sampling, position);
    return take_token(drawn.token, {drawn, {}});
  }
  const std::vector<float> raw(logits.begin(), logits.end());  // sampling works in place
  const std::int32_t token = sample_token(logits, history_, request_.sampling, position);
  return take_token(token, logprobs_of(raw, token, *request_.logprobs));
}

std::optional<FinishReason> AnswerText::take_token(std::int32_t token, PositionLogprobs logprobs) {
  ++usage_.completion_tokens;
  history_.add_output(token);
  last_.token = token;
  if (draft_) draft_->add(token);
  const bool ends = ends_with(token, logprobs.chosen.logprob);
  if (ends && !(request_.echo && request_.logprobs)) return FinishReason::stop;

  if (request_.logprobs)
    pending_.push_back({token, text_characters_, logprobs.chosen.logprob, std::move(logprobs.top)});
  release(ends ? std::string() : text_of(token));
  if (ends || stops_.stopped()) return FinishReason::stop;
  if (usage_.completion_tokens >= request_.max_tokens) return FinishReason::length;
  return std::nullopt;
}

// Whether a token ends answers; if so it stands in the usage.
bool AnswerText::ends_with(std::int32_t token, double logprob) {
  const std::vector<std::int32_t>& ends = model_.info().end_tokens;
  if (std::find(ends.begin(), ends.end(), token) == ends.end()) return false;
  usage_.end_token = token;
  if (request_.logprobs) usage_.end_logprob = logprob;
  return true;
}

std::string AnswerText::text_of(std::int32_t token) const {
  return request_.show_special ? model_.token_name(token) : model_.token_bytes(token);
}

void AnswerText::release(const std::string& bytes) {
  const std::string characters = gate_.push(bytes);
  text_characters_ += count_characters(characters);
  const std::string text = stops_.push(characters);
  if (text.empty() && pending_.empty()) return;
  listener_->on_text(text, pending_);
  pending_.clear();
}

void AnswerText::release_rest() {
  const std::string rest = stops_.push(gate_.finish()) + stops_.finish();
  if (!rest.empty() || !pending_.empty()) listener_->on_text(rest, pending_);
}

}  // namespace longhaul
