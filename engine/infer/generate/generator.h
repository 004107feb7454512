// Room engine/infer/generate
// Generation with continuous batching: requests in, tokens out, several answers in every step.
// generator.h is the loop, answer_text.h one answer of it; generation.h has requests and listeners.
// text_model.h is what they need of a model; inference_text_model.h implements that.
// sampling.h draws the next token; text_stream.h releases text only once it can no longer change.
// It knows neither HTTP nor JSON: a request is a struct, an answer goes to a listener.
//
// Continuous batching: several answers are generated together, one token each per step, and new requests join between
// two steps. A step never reads more than `prefill_tokens` of new prompts, so that a long prompt does not make the
// running answers stand still.
//
//   submit() (any thread) → waiting queue → a free slot with room → prefill in pieces → decode → on_end
//
// Requests with the same prompt that wait for the same step read it once, where the model copies
// (TextModel::copy_beginning): the first reads it, the others take what it has and read the rest. Where the model
// keeps texts (TextModel::held), a request whose prompt goes on from a text that has ended begins in its slot and reads
// what is behind it.
//
// A request begins when the model has room for its prompt and the longest answer that it may get: nothing that runs is
// ever put off for want of memory. They begin in their order: one that there is no room for holds up those behind it,
// so that long ones have their turn.
//
// A request ends by an end token, a stop text, its longest length, its deadline, cancellation or an error of the model;
// whatever the reason, on_end is called exactly once. Slots are free again at the same step.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/infer/generate/answer_text.h"
#include "engine/infer/generate/generation.h"
#include "engine/infer/generate/text_model.h"

namespace longhaul {

struct GeneratorLimits {
  int queue_max = 32;                 // waiting requests beyond the free slots
  std::int64_t prefill_tokens = 256;  // of all prompts, per step
  std::int64_t decode_tokens = 64;    // of all running answers, per step: guessed ones only where there is room beside;
                                      // chosen, not measured
};

struct GeneratorCounters {
  std::int64_t submitted = 0, refused = 0;
  std::int64_t finished[5] = {};  // by FinishReason
  std::int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
  std::int64_t first_token_count = 0;
  double first_token_s = 0;  // sum over requests, from submission to the first token
  double request_s = 0;      // sum over requests that ended
  int running = 0, waiting = 0;
  CachePages pages;          // after the last step
  std::int64_t held_up = 0;  // steps in which a slot was free and no room for the request whose turn it was
};

using GenerationId = std::uint64_t;

// Tokens of a prompt that need not be read where a slot holds `held`: all of these, or none.
std::int64_t held_of(std::span<const std::int32_t> prompt, std::span<const std::int32_t> held);

class Generator {
 public:
  Generator(TextModel& model, const Clock& clock, GeneratorLimits limits);

  // All of them or none (`unavailable`: the queue is full; `invalid_input`: cannot be served at all). Thread-safe.
  struct Submission {
    GenerationRequest request;
    std::shared_ptr<GenerationListener> listener;
  };
  Result<std::vector<GenerationId>> submit(std::vector<Submission> group);
  void cancel(GenerationId id);  // unknown or ended: nothing. Thread-safe
  void cancel_all();
  GeneratorCounters counters() const;
  // Monotonic time of the last completed step or idle round: an old one under load means that the model hangs.
  std::int64_t last_alive_ns() const { return alive_ns_.load(std::memory_order_relaxed); }

  // One round on the caller's thread: end what is due, admit, one forward. False: there was nothing to do.
  bool step();
  // Rounds until `stop`; sleeps while there is nothing to do.
  void run(const std::atomic<bool>& stop);

 private:
  struct Sequence {
    GenerationId id = 0;
    AnswerText answer;
    std::int64_t submitted_ns = 0, deadline_ns = 0;
    int slot = -1;
  };
  using SequencePtr = std::unique_ptr<Sequence>;

  void admit();
  // Of a free slot: its place among them, and how much of the prompt it holds.
  struct FreeSlot {
    std::size_t at = 0;
    std::int64_t held = 0;
  };
  FreeSlot slot_for(const GenerationRequest& next) const;
  void count_pages();
  void end_what_is_due();
  void end(SequencePtr sequence, FinishReason reason, const std::string& error);
  std::vector<TextStep> plan_step(std::vector<Sequence*>& who);
  // Whether its prompt is to be read now: not while another text with the same prompt reads it. Where that has read it,
  // it is copied, all but the last token, as far as the model copies it.
  bool reads_prompt(Sequence& sequence);
  // Gives each answer what the model has computed for it, and adds up what they got; of those that end now, why.
  std::vector<std::optional<FinishReason>> take_step(std::span<const TextStep> steps, const std::vector<Sequence*>& who,
                                                     GeneratorCounters& counted);
  void count(const GeneratorCounters& of_step);

  TextModel& model_;
  const Clock& clock_;
  const GeneratorLimits limits_;
  std::atomic<std::int64_t> alive_ns_{0};

  // Only the generator's thread.
  std::vector<SequencePtr> active_;
  std::vector<int> free_slots_;
  std::vector<float> logits_;
  std::vector<std::int32_t> drawn_;  // one for each step

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<SequencePtr> waiting_;
  std::vector<GenerationId> cancelled_;
  bool cancel_all_ = false;
  GenerationId next_id_ = 1;
  GeneratorCounters counters_;
};

}  // namespace longhaul
