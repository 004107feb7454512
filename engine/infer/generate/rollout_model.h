// A model in training as generation needs it: weights come from memory, time after time, and go when the answers are
// there, so that caches take no memory while the training goes on.
//
// On a device (the context's, where the weights lie) keys and values lie in pages of one pool, for as many tokens as
// all slots may hold, tokens and their log-probabilities are drawn there, and nothing but these comes to the host.
// Pool, scratch memory and the steps that were recorded (decode_graphs.h) begin and end with the weights: no recording
// outlives the addresses in it. Answers to one prompt hold the pages that it fills together. Guessed tokens
// are rows of a step like those of other answers, and a token is drawn behind each (info().draws_each).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/infer/generate/device_draws.h"
#include "engine/infer/generate/text_model.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/inference/inference_model.h"

namespace longhaul {

class RolloutModel final : public TextModel {
 public:
  // info: slots, context_length, end_tokens. Context and tokenizer are borrowed. `ranks`: that compute together, each
  // with weights of its part, and are asked for the same at the same time.
  RolloutModel(const ComputeContext& context, const Tokenizer& tokenizer, const ModelShape& shape, TextModelInfo info,
               InferenceRanks ranks = {});

  // With room for `context_length` tokens in each of `slots` caches, both at most those of info(). `keeps`: caches keep
  // their texts, for conversations that go on (TextModel::held). `draft_tokens`: AnswerBatchOptions.
  void begin(InferenceWeights weights, int slots, std::int64_t context_length, bool keeps = false,
             std::int64_t draft_tokens = 0);
  void end();
  // What that takes on a device, where prompts are read in steps of at most `prefill_tokens`. `before`: tokens that
  // stand before each text (ModelShape::virtual_tokens), for which there is room beside.
  static InferenceLoad load_for(std::int64_t slots, std::int64_t context_length, std::int64_t before,
                                std::int64_t draft_tokens);
  static constexpr std::int64_t prefill_tokens = 1024;  // AnswerBatchOptions

  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  // Prompts come as tokens.
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages,
                                                const Value& tools) const override;
  std::string token_bytes(std::int32_t token) const override;
  std::int64_t copy_beginning(int from, int to, std::int64_t tokens) override;
  void forget_last(int slot, std::int64_t tokens) override;
  bool reserve(int slot, std::int64_t tokens) override {
    return !pool_ || caches_[static_cast<std::size_t>(slot)].reserve(tokens + shape_.virtual_tokens);
  }
  void reset(int slot) override;
  std::span<const std::int32_t> held(int slot) const override { return held_[static_cast<std::size_t>(slot)]; }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits,
                 std::vector<std::int32_t>& drawn) override;

 private:
  // On a processor.
  Status compute_logits(std::span<const TextStep> steps, std::vector<float>& logits);

  const ComputeContext& context_;
  const Tokenizer& tokenizer_;
  ModelShape shape_;
  TextModelInfo info_;
  InferenceRanks ranks_;
  std::optional<InferenceModel> model_;          // at one address: a device knows tables of rotations by theirs
  std::unique_ptr<KvPool> pool_;                 // on a device; goes before the model
  std::vector<KvCache> caches_;                  // go before the model and the pool
  std::optional<DeviceDraws> draws_;             // on a device
  std::vector<std::vector<std::int32_t>> held_;  // of each cache
};

// Log-probabilities of tokens [first, ids.size()) of a text, each given all before it; one value for each in `out`.
// With `read` the cache holds the tokens before first - 1 already, of another text that begins like this one. On a
// device a text is read `scored_at_once` tokens at a time, and these numbers alone come to the host.
inline constexpr std::int64_t scored_at_once = 1024;
Status score_tokens(const ComputeContext& context, InferenceModel& model, KvCache& cache,
                    std::span<const std::int32_t> ids, std::size_t first, bool read, std::span<double> out);

}  // namespace longhaul
