// The last thing that a model does, on its last stage: the final norm, the product over the vocabulary, and the loss.
// Of a reward model (ModelShape::scalar_head) num_labels numbers for each token, which stand where the loss does
// otherwise: spans of losses and of their weights are [tokens, num_labels] then. Every rank of a tp group has this
// matrix whole and computes all of its gradient, the same bits as the others.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/layers/norm.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/vocabulary_part.h"
#include "engine/parallel/tensor/vocab_parallel_loss.h"

namespace longhaul {

class OutputLayer {
 public:
  // All are the model's, and outlive it. `embedding_here`: the model's embedding is on this stage, too.
  OutputLayer(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations, bool embedding_here);

  const Norm& norm() const { return norm_; }
  const VocabularyPart& table() const { return table_; }

  // Of a slot whose final norm is there. loss [tokens], where operations work.
  void losses(const ComputeContext& context, const ActivationSlot& slot, std::span<float> loss);
  // Logits of tokens [begin, end), f32 [end - begin, vocab]. One rank only.
  void logits(const ComputeContext& context, const ActivationSlot& slot, std::int64_t begin, std::int64_t end,
              View out) const;
  // The losses, and of sum over t of weights[t] * loss[t] the gradients: of the last block's output in the workspace's
  // dx, of the table and the norm in `target`, accumulated or written as it says.
  void backward(const ComputeContext& context, const ActivationSlot& slot, std::span<const float> weights,
                std::span<float> loss, const GradientTarget& target);

 private:
  ConstView weight() const { return parameters_.weight(table_.begin, table_.rows, hidden_); }
  VocabShard shard(std::int64_t tokens) const;
  void scalar_backward(const ComputeContext& context, const ActivationSlot& slot, std::span<const float> weights,
                       std::span<float> loss, View dweight, bool accumulate, View dx);
  void split_backward(const ComputeContext& context, const ActivationSlot& slot, std::span<const float> weights,
                      std::span<float> loss, View dweight, bool accumulate, View dx);

  const ParameterStore& parameters_;
  TensorParallel& tensor_;
  Activations& activations_;
  Norm norm_;
  VocabularyPart table_;
  bool shares_embedding_, is_scalar_;  // the first: the embedding of this stage, which completes the table's gradient
  std::int64_t hidden_;
};

}  // namespace longhaul
