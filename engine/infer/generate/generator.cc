#include "engine/infer/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

// Whether a token ends answers; if so it stands in `usage`.
bool ends_answer(const TextModelInfo& info, std::int32_t token, bool with_logprob, std::span<const float> raw_logits,
                 GenerationUsage& usage) {
  if (std::find(info.end_tokens.begin(), info.end_tokens.end(), token) == info.end_tokens.end()) return false;
  usage.end_token = token;
  if (with_logprob) usage.end_logprob = logprobs_of(raw_logits, token, 0).chosen.logprob;
  return true;
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

double seconds_since(std::int64_t start_ns, std::int64_t now_ns) {
  return static_cast<double>(now_ns - start_ns) * 1e-9;
}

}  // namespace

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

Generator::Generator(TextModel& model, const Clock& clock, GeneratorLimits limits)
    : model_(model), clock_(clock), limits_(limits), alive_ns_(clock.monotonic_ns()) {
  for (int slot = model.info().slots; slot-- > 0;) free_slots_.push_back(slot);
}

Result<std::vector<GenerationId>> Generator::submit(std::vector<Submission> group) {
  const TextModelInfo& info = model_.info();
  for (const Submission& one : group) {
    const GenerationRequest& r = one.request;
    LH_CHECK(check_sampling(r.sampling));
    if (r.prompt.empty()) return make_error(ErrorCode::invalid_input, "the prompt has no token");
    const auto length = static_cast<std::int64_t>(r.prompt.size());
    if (r.max_tokens < 0 || length + r.max_tokens > info.context_length) {
      return make_error(ErrorCode::invalid_input,
                        format("{} tokens of prompt and {} of answer do not fit the model's context of {}", length,
                               r.max_tokens, info.context_length),
                        "shorten the prompt or ask for fewer tokens");
    }
    for (const std::int32_t token : r.prompt) {
      if (token >= 0 && token < info.vocabulary) continue;
      return make_error(ErrorCode::invalid_input,
                        format("token {} of the prompt is outside of the vocabulary of {}", token, info.vocabulary));
    }
  }
  const std::int64_t now = clock_.monotonic_ns();
  std::lock_guard lock(mutex_);
  const int busy = counters_.running + counters_.waiting;
  const int room = info.slots + limits_.queue_max;
  if (static_cast<int>(group.size()) > room) {
    return make_error(ErrorCode::invalid_input,
                      format("{} answers at once; this server takes at most {}", group.size(), room));
  }
  if (busy + static_cast<int>(group.size()) > room) {
    counters_.refused += static_cast<std::int64_t>(group.size());
    return make_error(ErrorCode::unavailable, format("{} requests are running or waiting", busy), "try again later");
  }
  std::vector<GenerationId> ids;
  for (Submission& one : group) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = next_id_++;
    sequence->request = std::move(one.request);
    sequence->listener = std::move(one.listener);
    sequence->submitted_ns = now;
    sequence->deadline_ns = now + sequence->request.deadline_ms * 1'000'000;
    sequence->stops = StopFilter(sequence->request.stops);
    sequence->usage.prompt_tokens = static_cast<std::int64_t>(sequence->request.prompt.size());
    ids.push_back(sequence->id);
    waiting_.push_back(std::move(sequence));
    ++counters_.submitted;
    ++counters_.waiting;
  }
  wake_.notify_one();
  return ids;
}

void Generator::cancel(GenerationId id) {
  std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  wake_.notify_one();
}

void Generator::cancel_all() {
  std::lock_guard lock(mutex_);
  cancel_all_ = true;
  wake_.notify_one();
}

GeneratorCounters Generator::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void Generator::run(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    if (step()) continue;
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::milliseconds(50),
                   [&] { return !waiting_.empty() || !cancelled_.empty() || cancel_all_ || stop.load(); });
  }
}

void Generator::end(SequencePtr sequence, FinishReason reason, const std::string& error) {
  // What was held back as a possible stop text or half a character is text after all.
  if (reason != FinishReason::cancelled) {
    std::string rest = sequence->stops.push(sequence->gate.finish()) + sequence->stops.finish();
    if (!rest.empty() || !sequence->pending.empty()) sequence->listener->on_text(rest, sequence->pending);
  }
  if (sequence->slot >= 0) {
    model_.reset(sequence->slot);
    free_slots_.push_back(sequence->slot);
  }
  {
    std::lock_guard lock(mutex_);
    ++counters_.finished[static_cast<int>(reason)];
    counters_.request_s += seconds_since(sequence->submitted_ns, clock_.monotonic_ns());
    --(sequence->slot >= 0 ? counters_.running : counters_.waiting);
  }
  sequence->listener->on_end(reason, sequence->usage, error);
}

void Generator::end_what_is_due() {
  const std::int64_t now = clock_.monotonic_ns();
  std::vector<std::pair<SequencePtr, FinishReason>> due;
  std::vector<GenerationId> cancelled;
  bool all = false;
  const auto reason_of = [&](const Sequence& s) -> std::optional<FinishReason> {
    if (all || std::find(cancelled.begin(), cancelled.end(), s.id) != cancelled.end()) return FinishReason::cancelled;
    if (now >= s.deadline_ns) return FinishReason::deadline;
    return std::nullopt;
  };
  const auto sweep = [&](auto& sequences) {
    for (SequencePtr& s : sequences) {
      if (const auto reason = reason_of(*s)) due.emplace_back(std::move(s), *reason);
    }
    std::erase_if(sequences, [](const SequencePtr& s) { return s == nullptr; });
  };
  {
    std::lock_guard lock(mutex_);
    cancelled.swap(cancelled_);
    all = std::exchange(cancel_all_, false);
    sweep(waiting_);
  }
  sweep(active_);
  for (auto& [sequence, reason] : due) {
    end(std::move(sequence), reason, reason == FinishReason::deadline ? "the request's deadline passed" : "");
  }
}

void Generator::admit() {
  std::lock_guard lock(mutex_);
  while (!free_slots_.empty() && !waiting_.empty()) {
    const int slot = free_slots_.back();
    const GenerationRequest& next = waiting_.front()->request;
    model_.reset(slot);
    if (!model_.reserve(slot, static_cast<std::int64_t>(next.prompt.size()) + next.max_tokens)) {
      ++counters_.held_up;
      return;
    }
    SequencePtr sequence = std::move(waiting_.front());
    waiting_.pop_front();
    sequence->slot = slot;
    free_slots_.pop_back();
    active_.push_back(std::move(sequence));
    --counters_.waiting;
    ++counters_.running;
  }
}

void Generator::count_pages() {
  std::lock_guard lock(mutex_);
  counters_.pages = model_.pages();
}

// Decodes first, then pieces of prompts, the oldest first, up to the step's budget.
std::vector<TextStep> Generator::plan_step(std::vector<Sequence*>& who) {
  std::vector<TextStep> steps;
  for (const SequencePtr& s : active_) {
    if (!s->prompt_done) continue;
    steps.push_back({s->slot, {&s->last_token, 1}, TextStep::Logits::last, draw_of(*s)});
    who.push_back(s.get());
  }
  std::int64_t budget = limits_.prefill_tokens;
  for (const SequencePtr& s : active_) {
    if (s->prompt_done || budget <= 0) continue;
    const std::span<const std::int32_t> prompt = s->request.prompt;
    const std::size_t count = std::min(prompt.size() - s->read, static_cast<std::size_t>(budget));
    budget -= static_cast<std::int64_t>(count);
    if (s->read == 0)
      for (const std::int32_t token : prompt) s->history.add_prompt(token);
    const bool ends = s->read + count == prompt.size();
    auto wanted = ends ? TextStep::Logits::last : TextStep::Logits::none;
    if (s->request.echo && s->request.logprobs) wanted = TextStep::Logits::all;
    steps.push_back({s->slot, prompt.subspan(s->read, count), wanted, ends ? draw_of(*s) : std::nullopt});
    who.push_back(s.get());
  }
  return steps;
}

bool Generator::drawn_by_model(const Sequence& s) const {
  return model_.info().draws && !s.request.logprobs && s.request.max_tokens > 0;
}

std::optional<TokenDraw> Generator::draw_of(const Sequence& s) const {
  if (!drawn_by_model(s)) return std::nullopt;
  return TokenDraw{&s.request.sampling, &s.history, static_cast<std::uint64_t>(s.usage.completion_tokens)};
}

bool Generator::step() {
  alive_ns_.store(clock_.monotonic_ns(), std::memory_order_relaxed);
  end_what_is_due();
  admit();
  std::vector<Sequence*> who;
  const std::vector<TextStep> steps = plan_step(who);
  if (steps.empty()) return count_pages(), false;

  const Status status = model_.forward(steps, logits_, drawn_);
  std::vector<std::optional<FinishReason>> reasons(steps.size());
  const auto vocabulary = static_cast<std::size_t>(model_.info().vocabulary);
  std::size_t row = 0;
  std::int64_t generated = 0, read = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!status.ok()) {
      reasons[i] = FinishReason::error;
      continue;
    }
    Sequence& s = *who[i];
    const TextStep& step = steps[i];
    const bool all = step.wanted == TextStep::Logits::all;
    if (all) take_prompt_logprobs(s, step, static_cast<std::int64_t>(row));
    row += all ? step.tokens.size() : (step.wanted == TextStep::Logits::last && !step.draw ? 1 : 0);
    if (!s.prompt_done) {
      s.read += step.tokens.size();
      read += static_cast<std::int64_t>(step.tokens.size());
      if (s.read < s.request.prompt.size()) continue;
      finish_prompt(s);
      if (s.request.max_tokens == 0) {
        reasons[i] = FinishReason::length;
        continue;
      }
    }
    ++generated;
    reasons[i] = step.draw ? take_token(s, drawn_[i], {})
                           : draw_token(s, std::span<float>(logits_).subspan((row - 1) * vocabulary, vocabulary));
  }
  {
    std::lock_guard lock(mutex_);
    ++counters_.steps;
    counters_.prompt_tokens += read;
    counters_.generated_tokens += generated;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!reasons[i]) continue;
    const auto at =
        std::find_if(active_.begin(), active_.end(), [&](const SequencePtr& s) { return s.get() == who[i]; });
    SequencePtr ended = std::move(*at);
    active_.erase(at);
    end(std::move(ended), *reasons[i], status.ok() ? "" : status.error().message());
  }
  count_pages();
  alive_ns_.store(clock_.monotonic_ns(), std::memory_order_relaxed);
  return true;
}

// logits[t] predict token t + 1, so the piece's last row belongs to the first token of the next piece: every row but
// the prompt's very last gives a log-probability of a prompt token.
void Generator::take_prompt_logprobs(Sequence& s, const TextStep& step, std::int64_t row) {
  const auto vocabulary = static_cast<std::size_t>(model_.info().vocabulary);
  const std::vector<std::int32_t>& prompt = s.request.prompt;
  if (s.read == 0) s.pending.push_back({prompt[0], 0, std::nullopt, {}});
  for (std::size_t t = 0; t < step.tokens.size(); ++t) {
    const std::size_t next = s.read + t + 1;
    if (next >= prompt.size()) break;
    const auto logits =
        std::span<const float>(logits_).subspan((static_cast<std::size_t>(row) + t) * vocabulary, vocabulary);
    PositionLogprobs p = logprobs_of(logits, prompt[next], *s.request.logprobs);
    s.pending.push_back({prompt[next], 0, p.chosen.logprob, std::move(p.top)});
  }
}

void Generator::finish_prompt(Sequence& s) {
  s.prompt_done = true;
  if (!s.request.echo && !s.request.logprobs) return;
  Utf8Gate gate;  // of its own: half a character at the prompt's end must not swallow the answer's beginning
  std::string text;
  std::size_t index = 0;
  for (const std::int32_t token : s.request.prompt) {
    if (index < s.pending.size()) s.pending[index++].text_offset = count_characters(text);
    text += gate.push(text_of(s, token));
  }
  text += gate.finish();
  s.text_characters = count_characters(text);
  if (!s.request.echo) return;
  s.listener->on_text(text, s.pending);
  s.pending.clear();
}

std::optional<FinishReason> Generator::draw_token(Sequence& s, std::span<float> logits) {
  std::vector<float> raw;
  if (s.request.logprobs) raw.assign(logits.begin(), logits.end());  // sampling works in place
  const std::int32_t token =
      sample_token(logits, s.history, s.request.sampling, static_cast<std::uint64_t>(s.usage.completion_tokens));
  return take_token(s, token, raw);
}

std::optional<FinishReason> Generator::take_token(Sequence& s, std::int32_t token, std::span<const float> raw_logits) {
  if (s.usage.completion_tokens == 0) {
    std::lock_guard lock(mutex_);
    ++counters_.first_token_count;
    counters_.first_token_s += seconds_since(s.submitted_ns, clock_.monotonic_ns());
  }
  ++s.usage.completion_tokens;
  s.history.add_output(token);
  s.last_token = token;
  if (ends_answer(model_.info(), token, s.request.logprobs.has_value(), raw_logits, s.usage)) return FinishReason::stop;

  if (s.request.logprobs) {
    PositionLogprobs p = logprobs_of(raw_logits, token, *s.request.logprobs);
    s.pending.push_back({token, s.text_characters, p.chosen.logprob, std::move(p.top)});
  }
  release_text(s, text_of(s, token));
  if (s.stops.stopped()) return FinishReason::stop;
  if (s.usage.completion_tokens >= s.request.max_tokens) return FinishReason::length;
  return std::nullopt;
}

std::string Generator::text_of(const Sequence& s, std::int32_t token) const {
  return s.request.show_special ? model_.token_name(token) : model_.token_bytes(token);
}

void Generator::release_text(Sequence& s, const std::string& bytes) {
  const std::string characters = s.gate.push(bytes);
  s.text_characters += count_characters(characters);
  const std::string text = s.stops.push(characters);
  if (text.empty() && s.pending.empty()) return;
  s.listener->on_text(text, s.pending);
  s.pending.clear();
}

}  // namespace longhaul
