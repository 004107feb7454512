// Room engine/model/inference
// The same transformer for generation and scoring: forward only, with caches of keys and values.
// inference_model.h is the model, inference_blocks.h what it does up to its logits; inference_weights.h and
// linear_weights.h are its weights, also in 8 and 4 bits. cached_attention.h attends to what the caches (cache/) hold,
// which ranks/ may have a part of each; step_table.h and decode_graphs.h make a step cheap on a GPU.
// It knows no requests and no sampling settings of users: those are engine/infer.
//
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

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/model/inference/decode_graphs.h"
#include "engine/model/inference/inference_blocks.h"
#include "engine/model/inference/step_check.h"
#include "engine/model/store/growing_memory.h"

namespace longhaul {

// Where embeddings, or keys and values, stand before every text (ModelShape::virtual_tokens), the first step of an
// empty cache reads them before its tokens: callers know nothing of them but that texts are so much shorter
// (ModelShape::text_length_max) and KvCache::length() counts them.
//
// Not thread-safe (scratch memory of its own): one per serving thread; weights could be shared later.
class InferenceModel {
 public:
  // A model artifact or a Hugging Face folder: config.json and model.safetensors. dtype f32 or bf16. With a device,
  // weights, caches and scratch lie in its memory, and it outlives the model; else in the host's. `whole`: as
  // load_inference_weights() has it.
  static Result<InferenceModel> load(const std::string& folder, DType dtype, Device* device = nullptr,
                                     MemoryAccount* whole = nullptr);
  // `ranks`: with which it computes, each with the weights of its part (inference_weights_of() of a store that has
  // them); every call is theirs together then, with the same arguments. `shape` is the whole model's.
  InferenceModel(const ModelShape& shape, InferenceWeights weights, InferenceRanks ranks = {});
  InferenceModel(InferenceModel&&) = default;

  const ModelShape& shape() const { return blocks_.shape(); }
  DType dtype() const { return weights().dtype; }
  const InferenceWeights& weights() const { return blocks_.weights(); }
  Device* device() const { return weights().device(); }  // null: it computes on the host
  // Of texts of so many tokens. Goes before the model.
  KvCache make_cache(std::int64_t length_max) const {
    return KvCache(blocks_.part(), length_max + shape().virtual_tokens, dtype(), account());
  }
  // Pages for caches, on the model's device or host: KvCache(*pool). Goes before the model, after its caches.
  std::unique_ptr<KvPool> make_pool(std::int64_t pages) const {
    return std::make_unique<KvPool>(blocks_.part(), pages, dtype(), account());
  }
  // Takes what scratch memory steps of that load will need, so that none moves from then on, which would make recorded
  // steps void. On a device, with caches in pages of the pool.
  void take_scratch(const ComputeContext& context, const InferenceLoad& load, KvPool& pool);
  // Steps of one token for each sequence are recorded and replayed on a device; false: asked for one by one, as they
  // are where several ranks compute a step.
  void use_graphs(bool on) { use_graphs_ = on && !blocks_.ranks().are_several(); }
  const DecodeGraphCounts& graph_counts() const { return graphs_->counts(); }

  // Appends the tokens of every step to its cache and computes the logits that are wanted, f32, in the host's memory.
  // The context is one of the model's device. Refuses (invalid_input, nothing changed) a token outside the vocabulary,
  // a cache without room, a cache used twice in one call, or caches of several pools.
  Status forward(const ComputeContext& context, std::span<const SequenceStep> steps, LogitsWanted wanted,
                 std::span<float> logits);
  // As forward(), and draws the token behind every step on the model's device: draws[i] for steps[i], into tokens[i];
  // of the logits nothing comes to the host. On a processor it is refused (unsupported):
  // engine/infer/generate/sampling.h draws. `logprobs`: empty, or as long as `tokens`: log-softmax of the logits
  // themselves at each token that was drawn, in f64, NaN where none was.
  Status draw(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<const SampleRow> draws,
              std::span<std::int32_t> tokens, std::span<double> logprobs = {});
  // As forward() of one text; out[t], in f64: log-softmax of the logits behind its token t at targets[t], computed on
  // the model's device, from where nothing else comes. On a processor it is refused (unsupported):
  // engine/infer/generate/rollout_model.h scores. A target outside of the vocabulary is refused (invalid_input).
  Status score(const ComputeContext& context, const SequenceStep& step, std::span<const std::int32_t> targets,
               std::span<double> out);
  static constexpr std::int64_t logits_rows_max = 128;  // that a device holds at a time, of steps that want all
  // For draws with penalties: `rows` rows of what was seen (SampleRow::seen_row), on the device.
  void keep_seen(std::int64_t rows);
  // counts [vocab] as engine/ops/loss/sample.h has them; from then on draw() counts.
  void set_seen(const ComputeContext& context, std::int64_t row, std::span<const std::int32_t> counts);

 private:
  MemoryAccount* account() const { return weights().memory.get(); }
  // out [sequences, vocab], where the operations work.
  void last_logits(const ComputeContext& context, View out);
  void all_logits(const ComputeContext& context, std::span<float> logits);
  // What a step of one token for each sequence asks for, recorded and replayed where that is on.
  void decode_on_device(DecodeKind kind, const std::function<void(std::int64_t longest)>& ask);
  void logits_to_host(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<float> logits);

  InferenceBlocks blocks_;
  // Of a device: logits and tokens before the host has them, and what answers with penalties have seen.
  GrowingMemory logits_, drawn_, logprobs_;
  Tensor seen_;  // [rows, vocab] i32
  bool use_graphs_;
  std::unique_ptr<DecodeGraphs> graphs_ = std::make_unique<DecodeGraphs>();
};

}  // namespace longhaul
