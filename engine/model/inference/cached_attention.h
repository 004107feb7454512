// Attention of a step's tokens to what the caches of their sequences hold: one layer at a time, of sequences that bring
// one token each (decode) and of those that bring several (prompts), mixed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "contracts/model/model_shape.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/model/inference/step_table.h"
#include "engine/model/store/growing_memory.h"
#include "engine/ops/attention/paged_attention.h"

namespace longhaul {

class CachedAttention {
 public:
  // Computes in `dtype`; memory is the account's, null: the host's.
  CachedAttention(const ModelShape& shape, DType dtype, MemoryAccount* memory);

  // Of a step as `table` holds it: sequences of at most `longest` tokens. The table and the memory of qkv, q and out
  // are the caller's and live until the call comes back.
  struct Step {
    std::span<const SequenceStep> steps;
    const StepTable& table;
    std::int64_t longest;
  };
  // Keys and values of qkv [tokens, q + 2 kv] go behind what each cache holds, whose length moves on only after the
  // last layer; its queries go to q [tokens, q], which attend to them all: out [tokens, q].
  void attend(const ComputeContext& context, const Step& step, int layer, View qkv, View q, View out);
  // The first half of it: nothing is attended to.
  void append(const ComputeContext& context, const StepTable& table, int layer, ConstView qkv, View q) const;

  // Takes what attention will need for `sequences` texts of `context_length` tokens in pages of the pool, so that
  // nothing moves from then on. q and out: [sequences, q].
  void take_scratch(const ComputeContext& context, std::int64_t sequences, std::int64_t context_length, KvPool& pool,
                    View q, View out);

 private:
  PagedShape paged_shape(const KvPool& pool, std::int64_t sequences, std::int64_t longest) const;
  // Neighbouring sequences [begin, end) with one token each; and one with several.
  void attend_decode(const ComputeContext& context, const Step& step, std::size_t begin, std::size_t end, int layer,
                     View q, View out) const;
  void attend_prompt(const ComputeContext& context, const Step& step, std::size_t sequence, int layer, View q,
                     View out);
  // Keys and values of one layer as attention over several tokens wants them: one behind the other.
  std::pair<View, View> in_order(const ComputeContext& context, const Step& step, std::size_t sequence, int layer);

  ModelShape shape_;
  DType dtype_;
  MemoryAccount* memory_;
  GrowingMemory in_order_;  // keys and values of one text in one layer
};

}  // namespace longhaul
