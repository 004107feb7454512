// A decoder-only transformer (Llama family, GPT-2) for generation and scoring: forward only, with a KV cache per
// sequence. The arithmetic is that of training (engine/model/llama.h), operation by operation; only what is kept
// differs.
//
//   LH_TRY(auto model, InferenceModel::load(folder, DType::bf16));
//   KvCache cache = model.make_cache(512);
//   SequenceStep step{&cache, prompt};                     // prefill: all tokens at once (or in pieces)
//   LH_CHECK(model.forward(context, {&step, 1}, LogitsWanted::last, logits));   // [1, vocab]
//   ... pick a token, step.tokens = {one token}, forward again: decode
#pragma once

#include <span>
#include <string>

#include "engine/model/inference_weights.h"
#include "engine/model/kv_cache.h"
#include "engine/ops/rope.h"

namespace longhaul {

// One sequence's part of a forward pass; sequences of one call may have different lengths, prefill and decode mix.
struct SequenceStep {
  KvCache* cache = nullptr;              // the tokens' keys and values are appended
  std::span<const std::int32_t> tokens;  // at least one, each in [0, vocab)
};

enum class LogitsWanted {
  last,  // [sequences, vocab]: after each sequence's last token
  all,   // [all tokens of all steps, vocab], in the order of the steps
  none,  // only fill the caches
};

// Not thread-safe (scratch memory of its own): one per serving thread; weights could be shared later.
class InferenceModel {
 public:
  // A model artifact or a Hugging Face folder: config.json and model.safetensors. dtype f32 or bf16.
  static Result<InferenceModel> load(const std::string& folder, DType dtype);
  InferenceModel(ModelShape shape, InferenceWeights weights);
  InferenceModel(InferenceModel&&) = default;
  InferenceModel& operator=(InferenceModel&&) = default;

  const ModelShape& shape() const { return shape_; }
  DType dtype() const { return weights_.dtype; }
  const InferenceWeights& weights() const { return weights_; }
  KvCache make_cache(std::int64_t length_max) const { return KvCache(shape_, length_max, weights_.dtype); }

  // Appends the tokens of every step to its cache and computes the logits that are wanted, f32. Refuses (invalid_input,
  // nothing changed) a token outside the vocabulary, a cache without room, or a cache used twice in one call.
  Status forward(const ComputeContext& context, std::span<const SequenceStep> steps, LogitsWanted wanted,
                 std::span<float> logits);

 private:
  struct Rows;  // scratch for the tokens of one call
  Status check(std::span<const SequenceStep> steps, LogitsWanted wanted, std::span<float> logits) const;
  void run_block(const ComputeContext& context, std::span<const SequenceStep> steps, int layer, Rows& rows);
  // y = norm(x); and x += branch first.
  void normalise(const ComputeContext& context, const NormWeights& norm, ConstView x, View y, std::int64_t rows) const;
  void add_and_normalise(const ComputeContext& context, const NormWeights& norm, ConstView branch, View x, View y,
                         std::int64_t rows) const;
  void embed(const ComputeContext& context, const Rows& rows);
  void attend(const ComputeContext& context, std::span<const SequenceStep> steps, int layer, Rows& rows);
  void reserve(std::int64_t tokens);

  ModelShape shape_;
  InferenceWeights weights_;
  RopeTable rope_;
  std::int64_t tokens_max_ = 0;  // what the scratch holds
  Tensor x_, normed_, qkv_, attention_, gate_up_, activated_, out_;
};

}  // namespace longhaul
