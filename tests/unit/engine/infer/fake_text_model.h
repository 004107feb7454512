// A model without weights: bytes are tokens, and the next token follows from the sequence alone by a rule that a test
// can predict. Held to the contract of engine/infer/generate/text_model.h by text_model_contract.h.
//
// Tokens 0..255 are bytes, 256 ends an answer. The answer to a prompt is `script(prompt)`, byte by byte, then the end
// token; by default the prompt itself again. A prompt that begins with "forever" is answered without end.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "engine/infer/generate/text_model.h"

namespace longhaul {

class FakeTextModel : public TextModel {
 public:
  static constexpr std::int32_t end_token = 256;
  static constexpr std::int64_t vocabulary = 257;

  explicit FakeTextModel(int slots = 4, std::int64_t context_length = 4096, int step_ms = 0)
      : step_ms_(step_ms), slots_(static_cast<std::size_t>(slots)) {
    info_ = {vocabulary, context_length, slots, {end_token}};
  }

  // Which text answers which prompt.
  std::function<std::string(const std::string&)> script = [](const std::string& prompt) { return prompt; };
  std::atomic<bool> fail_next{false};
  int steps = 0, largest_batch = 0;
  std::int64_t largest_prefill = 0, drawn_tokens = 0;
  void draw_itself() { info_.draws = true; }
  void mark_tool_calls() { info_.marks_tool_calls = true; }

  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view text) const override {
    std::vector<std::int32_t> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages, const Value&) const override {
    LH_CHECK(check_conversation(messages));
    return encode(messages.back().content);
  }
  std::string token_bytes(std::int32_t token) const override {
    return token >= 0 && token < 256 ? std::string(1, static_cast<char>(token)) : std::string();
  }

  // Of all texts together; reserve() is refused beyond it.
  std::int64_t room = std::int64_t{1} << 40, promised = 0;
  bool reserve(int slot, std::int64_t tokens) override {
    if (promised + tokens > room) return false;
    promised += slots_[static_cast<std::size_t>(slot)].promised = tokens;
    return true;
  }
  CachePages pages() const override { return {room, promised, promised}; }
  void reset(int slot) override {
    promised -= slots_[static_cast<std::size_t>(slot)].promised;
    slots_[static_cast<std::size_t>(slot)] = {};
  }
  Status forward(std::span<const TextStep> steps_in, std::vector<float>& logits,
                 std::vector<std::int32_t>& drawn) override {
    if (step_ms_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(step_ms_));
    if (fail_next.exchange(false)) return make_error(ErrorCode::internal, "the fake was asked to fail");
    ++steps;
    largest_batch = std::max(largest_batch, static_cast<int>(steps_in.size()));
    logits.clear();
    drawn.clear();
    std::int64_t prefill = 0;
    for (const TextStep& step : steps_in) {
      Slot& slot = slots_[static_cast<std::size_t>(step.slot)];
      if (slot.prompt_open) prefill += static_cast<std::int64_t>(step.tokens.size());
      for (std::size_t t = 0; t < step.tokens.size(); ++t) {
        slot.tokens.push_back(step.tokens[t]);
        const bool last = t + 1 == step.tokens.size();
        if (step.wanted == TextStep::Logits::none || (!last && step.wanted == TextStep::Logits::last)) continue;
        if (step.wanted == TextStep::Logits::all) slot.prompt_open = true;  // where the prompt ends is not known yet
        const std::int32_t next = next_token(slot);
        const std::size_t row = logits.size();
        logits.resize(row + static_cast<std::size_t>(vocabulary), -5.0F);
        logits[row + static_cast<std::size_t>(next)] = 20.0F;
      }
      drawn.push_back(-1);
      if (!step.draw) continue;
      const std::size_t row = logits.size() - static_cast<std::size_t>(vocabulary);
      drawn.back() =
          sample_token(std::span(logits).subspan(row), *step.draw->history, *step.draw->sampling, step.draw->position);
      logits.resize(row);
      ++drawn_tokens;
    }
    largest_prefill = std::max(largest_prefill, prefill);
    return {};
  }

 private:
  struct Slot {
    std::vector<std::int32_t> tokens;
    std::size_t prompt_length = 0;
    std::int64_t promised = 0;
    bool prompt_open = true;  // until logits of the last token are asked for
    std::string answer;
  };
  std::int32_t next_token(Slot& slot) {
    if (slot.prompt_open) {
      slot.prompt_open = false;
      slot.prompt_length = slot.tokens.size();
      std::string prompt;
      for (const std::int32_t token : slot.tokens) prompt += token_bytes(token);
      slot.answer = script(prompt);
    }
    const std::size_t at = slot.tokens.size() - slot.prompt_length;
    if (slot.answer.starts_with("forever")) return static_cast<unsigned char>(slot.answer[at % slot.answer.size()]);
    return at < slot.answer.size() ? static_cast<unsigned char>(slot.answer[at]) : end_token;
  }

  int step_ms_;
  TextModelInfo info_;
  std::vector<Slot> slots_;
};

}  // namespace longhaul
