// A model in training as generation needs it: weights come from memory, time after time, and go when the answers are
// there, so that caches take no memory while the training goes on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/infer/generate/text_model.h"
#include "engine/model/inference/inference_model.h"

namespace longhaul {

class RolloutModel final : public TextModel {
 public:
  // info: slots, context_length, end_tokens. Context and tokenizer are borrowed.
  RolloutModel(const ComputeContext& context, const Tokenizer& tokenizer, const ModelShape& shape, TextModelInfo info);

  // With room for `context_length` tokens in each of `slots` caches, both at most those of info().
  void begin(InferenceWeights weights, int slots, std::int64_t context_length);
  void end();

  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  // Prompts come as tokens.
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages,
                                                const Value& tools) const override;
  std::string token_bytes(std::int32_t token) const override;
  void copy_beginning(int from, int to, std::int64_t tokens) override;
  void forget_last(int slot, std::int64_t tokens) override;
  void reset(int slot) override { caches_[static_cast<std::size_t>(slot)].truncate(0); }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits,
                 std::vector<std::int32_t>& drawn) override;

 private:
  const ComputeContext& context_;
  const Tokenizer& tokenizer_;
  ModelShape shape_;
  TextModelInfo info_;
  std::unique_ptr<InferenceModel> model_;
  std::vector<KvCache> caches_;  // go before the model
};

// Log-probabilities of tokens [first, ids.size()) of a text, each given all before it; one value for each in `out`.
// With `read` the cache holds the tokens before first - 1 already, of another text that begins like this one.
Status score_tokens(const ComputeContext& context, InferenceModel& model, KvCache& cache,
                    std::span<const std::int32_t> ids, std::size_t first, bool read, std::span<double> out);

}  // namespace longhaul
