// The first thing that a model does with a token, on its first stage: what is looked up by id, and in GPT-2 by place.
// Ids behind the vocabulary are rows of the embeddings that stand before a text (ModelShape::virtual_tokens), which
// every rank of tp has whole: their gradient is the first rank's alone, so that a sum over tp counts it once. Where
// keys and values stand there (virtual_keys), such an id has nothing here.
#pragma once

#include <cstdint>

#include "engine/model/stage_batches.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/vocabulary_part.h"

namespace longhaul {

class TokenEmbedding {
 public:
  // All are the model's, and outlive it. `output_here`: so is the output, whose backward comes first, and writes the
  // table's gradient where the two are one.
  TokenEmbedding(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations,
                 StageBatches& batches, bool output_here);

  const VocabularyPart& table() const { return table_; }
  // out [r, hidden]: the rows of this rank. Collective over tp where the vocabulary is split.
  void forward(const ComputeContext& context, const MicroBatch& batch, View out);
  // dx [r, hidden]
  void backward_weight(const ComputeContext& context, const MicroBatch& batch, View dx, const GradientTarget& target);

 private:
  // Of the table of tokens, and of what stands before a text: where the operations find them.
  std::span<const std::int32_t> ids_of(const ComputeContext& context, const MicroBatch& batch) const;
  std::span<const std::int32_t> prompt_rows_of(const ComputeContext& context, const MicroBatch& batch) const;
  void embed_tokens(const ComputeContext& context, const MicroBatch& batch, View out);
  // Adds rows of a small table that all ranks have: those of this rank's part of `rows`, -1 for none.
  void add_rows_of(const ComputeContext& context, std::int64_t begin, std::int64_t table_rows,
                   std::span<const std::int32_t> rows, View out);
  void backward_table(const ComputeContext& context, const MicroBatch& batch, View all, const GradientTarget& target);
  void backward_positions(const ComputeContext& context, const MicroBatch& batch, View all,
                          const GradientTarget& target);
  void backward_prompt(const ComputeContext& context, const MicroBatch& batch, View all, const GradientTarget& target);

  const ParameterStore& parameters_;
  TensorParallel& tensor_;
  Activations& activations_;
  StageBatches& batches_;
  VocabularyPart table_;
  // Where the learned positions and the embeddings before a text begin in the flat arrays; -1: there are none.
  std::int64_t positions_ = -1, prompt_ = -1;
  std::int64_t hidden_, places_, prompt_size_;
  bool follows_output_;  // which has written the table's gradient
};

}  // namespace longhaul
