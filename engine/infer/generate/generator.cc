#include "engine/infer/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

double seconds_since(std::int64_t start_ns, std::int64_t now_ns) {
  return static_cast<double>(now_ns - start_ns) * 1e-9;
}

// Of logits that a step gives back.
std::size_t rows_of(const TextStep& step) {
  if (step.draw) return 0;
  if (step.wanted == TextStep::Logits::all) return step.tokens.size();
  return step.wanted == TextStep::Logits::last ? 1 : 0;
}

}  // namespace

std::int64_t held_of(std::span<const std::int32_t> prompt, std::span<const std::int32_t> held) {
  return held.size() < prompt.size() && std::ranges::equal(held, prompt.first(held.size())) ? std::ssize(held) : 0;
}

Generator::Generator(TextModel& model, const Clock& clock, GeneratorLimits limits)
    : model_(model), clock_(clock), limits_(limits), alive_ns_(clock.monotonic_ns()) {
  for (int slot = model.info().slots; slot-- > 0;) free_slots_.push_back(slot);
}

Result<std::vector<GenerationId>> Generator::submit(std::vector<Submission> group) {
  const TextModelInfo& info = model_.info();
  for (const Submission& one : group) LH_CHECK(check_request(one.request, info));
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
    const std::int64_t deadline_ns = now + one.request.deadline_ms * 1'000'000;
    AnswerText answer(model_, std::move(one.request), std::move(one.listener));
    auto sequence = std::make_unique<Sequence>(Sequence{next_id_++, std::move(answer), now, deadline_ns});
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
  if (reason != FinishReason::cancelled) sequence->answer.release_rest();
  if (sequence->slot >= 0) {
    if (!model_.info().keeps) model_.reset(sequence->slot);
    free_slots_.push_back(sequence->slot);
  }
  {
    std::lock_guard lock(mutex_);
    ++counters_.finished[static_cast<int>(reason)];
    counters_.request_s += seconds_since(sequence->submitted_ns, clock_.monotonic_ns());
    --(sequence->slot >= 0 ? counters_.running : counters_.waiting);
  }
  sequence->answer.end(reason, error);
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

Generator::FreeSlot Generator::slot_for(const GenerationRequest& next) const {
  FreeSlot best{free_slots_.size() - 1, 0};
  if (!model_.info().keeps || next.echo) return best;
  for (std::size_t at = 0; at < free_slots_.size(); ++at)
    if (const std::int64_t held = held_of(next.prompt, model_.held(free_slots_[at])); held > best.held)
      best = {at, held};
  return best;
}

void Generator::admit() {
  std::lock_guard lock(mutex_);
  while (!free_slots_.empty() && !waiting_.empty()) {
    const GenerationRequest& next = waiting_.front()->answer.request();
    const FreeSlot chosen = slot_for(next);
    const int slot = free_slots_[chosen.at];
    if (chosen.held == 0) model_.reset(slot);
    if (!model_.reserve(slot, static_cast<std::int64_t>(next.prompt.size()) + next.max_tokens)) {
      ++counters_.held_up;
      return;
    }
    SequencePtr sequence = std::move(waiting_.front());
    waiting_.pop_front();
    sequence->slot = slot;
    if (chosen.held > 0) sequence->answer.begin_behind(chosen.held);
    free_slots_.erase(free_slots_.begin() + static_cast<std::ptrdiff_t>(chosen.at));
    active_.push_back(std::move(sequence));
    --counters_.waiting;
    ++counters_.running;
  }
}

void Generator::count_pages() {
  std::lock_guard lock(mutex_);
  counters_.pages = model_.pages();
}

bool Generator::reads_prompt(Sequence& sequence) {
  AnswerText& answer = sequence.answer;
  const std::vector<std::int32_t>& prompt = answer.request().prompt;
  const auto shared = static_cast<std::int64_t>(prompt.size()) - 1;
  if (!model_.info().copies || answer.prompt_read() > 0 || answer.request().echo || shared == 0) return true;
  for (const SequencePtr& other : active_) {
    if (other.get() == &sequence) return true;  // those behind it wait for this one
    if (other->answer.request().prompt != prompt) continue;
    if (other->answer.prompt_read() < shared) return false;
    if (const std::int64_t copied = model_.copy_beginning(other->slot, sequence.slot, shared); copied > 0)
      answer.begin_behind(copied);
    return true;
  }
  return true;
}

// Decodes first, then pieces of prompts, the oldest first, up to the step's budget.
std::vector<TextStep> Generator::plan_step(std::vector<Sequence*>& who) {
  std::vector<TextStep> steps;
  const auto running =
      std::count_if(active_.begin(), active_.end(), [](const auto& s) { return s->answer.prompt_done(); });
  const std::int64_t draft_max = running == 0 ? 0 : std::max<std::int64_t>(0, limits_.decode_tokens / running - 1);
  for (const SequencePtr& s : active_) {
    if (!s->answer.prompt_done()) continue;
    steps.push_back(s->answer.decode_step(s->slot, draft_max));
    who.push_back(s.get());
  }
  std::int64_t budget = limits_.prefill_tokens;
  for (const SequencePtr& s : active_) {
    if (s->answer.prompt_done() || budget <= 0 || !reads_prompt(*s)) continue;
    steps.push_back(s->answer.prompt_step(s->slot, budget));
    who.push_back(s.get());
    budget -= static_cast<std::int64_t>(steps.back().tokens.size());
  }
  return steps;
}

bool Generator::step() {
  alive_ns_.store(clock_.monotonic_ns(), std::memory_order_relaxed);
  end_what_is_due();
  admit();
  std::vector<Sequence*> who;
  const std::vector<TextStep> steps = plan_step(who);
  if (steps.empty()) return count_pages(), false;

  const Status status = model_.forward(steps, logits_, drawn_);
  std::vector<std::optional<FinishReason>> reasons(steps.size(), FinishReason::error);
  GeneratorCounters counted;
  if (status.ok()) reasons = take_step(steps, who, counted);
  count(counted);
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

std::vector<std::optional<FinishReason>> Generator::take_step(std::span<const TextStep> steps,
                                                              const std::vector<Sequence*>& who,
                                                              GeneratorCounters& counted) {
  std::vector<std::optional<FinishReason>> reasons;
  std::span<float> rest = logits_;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TextStep& step = steps[i];
    AnswerText& answer = who[i]->answer;
    const std::size_t rows = rows_of(step) * static_cast<std::size_t>(model_.info().vocabulary);
    const std::int64_t before = answer.usage().completion_tokens;
    if (!answer.prompt_done()) counted.prompt_tokens += static_cast<std::int64_t>(step.tokens.size());
    reasons.push_back(answer.take(step, rest.first(rows), step.draw ? drawn_[i] : -1));
    rest = rest.subspan(rows);
    if (answer.rejected() > 0) model_.forget_last(who[i]->slot, answer.rejected());
    if (answer.usage().completion_tokens == before) continue;
    counted.generated_tokens += answer.usage().completion_tokens - before;
    if (before > 0) continue;
    ++counted.first_token_count;
    counted.first_token_s += seconds_since(who[i]->submitted_ns, clock_.monotonic_ns());
  }
  return reasons;
}

void Generator::count(const GeneratorCounters& of_step) {
  std::lock_guard lock(mutex_);
  ++counters_.steps;
  counters_.prompt_tokens += of_step.prompt_tokens;
  counters_.generated_tokens += of_step.generated_tokens;
  counters_.first_token_count += of_step.first_token_count;
  counters_.first_token_s += of_step.first_token_s;
}

}  // namespace longhaul
