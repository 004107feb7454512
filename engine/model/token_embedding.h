// The first thing that a model does with a token, on its first stage: what is looked up by id, and in GPT-2 by place.
#pragma once

#include <cstdint>

#include "engine/model/stage_batches.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/vocabulary_part.h"

namespace longhaul {

class TokenEmbedding {
 public:
  // All are the model's, and outlive it.
  TokenEmbedding(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations,
                 StageBatches& batches);

  const VocabularyPart& table() const { return table_; }
  // out [r, hidden]: the rows of this rank. Collective over tp where the vocabulary is split.
  void forward(const ComputeContext& context, const MicroBatch& batch, View out);
  // The tables' gradients accumulate: dx [r, hidden].
  void backward_weight(const ComputeContext& context, const MicroBatch& batch, View dx, const GradientTarget& target);
  // Zeroes the gradient of what is looked up by place, and with `tokens` of what is looked up by id.
  void clear(const ComputeContext& context, const GradientTarget& target, bool tokens) const;

 private:
  void embed_tokens(const ComputeContext& context, const MicroBatch& batch, View out);

  const ParameterStore& parameters_;
  TensorParallel& tensor_;
  Activations& activations_;
  StageBatches& batches_;
  VocabularyPart table_;
  std::int64_t positions_ = -1;  // begin of the learned positions in the flat arrays; -1: there are none
  std::int64_t hidden_, places_;
};

}  // namespace longhaul
