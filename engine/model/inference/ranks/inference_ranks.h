// Room engine/model/inference/ranks
// Several ranks that compute one model's steps, each with a part of it.
// inference_ranks.h says who does, and sends; rank_sums.h adds up and puts together, with the memory for it.
// It knows no layer: those are engine/model/inference/inference_blocks.h.
//
// The ranks that compute a model's steps together, as one of them sees it: tp ranks have a part of every matrix, of the
// vocabulary and of the heads with their keys and values; pp stages some layers each, one behind the other. All of them
// are given the same steps in the same order and have the same logits at the end, bit for bit, so that each draws the
// same tokens: nobody has to say what comes next.
//
//   embedding   a token's row is one tp rank's: the sum over tp, which is exact
//   a block     two sums over tp of f32 addends, behind the matrices whose columns are split (Shoeybi et al. 2019,
//               "Megatron-LM", section 3)
//   stages      rows [tokens, hidden] go from each to the next
//   logits      columns of the last stage's tp ranks side by side, then from there to the other stages
//
// A failure is kept, and nothing is sent after it: whoever asks for a step asks status() behind it. One thread.
#pragma once

#include "base/error/result.h"
#include "contracts/model/model_shape.h"
#include "engine/comm/communicator.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// A rank's part of a model, as what computes its layers sees it: 1/tp of the heads and of the inner rows, and so many
// layers. Shared experts, which no layout splits, are the first tp rank's alone. Of numbers that tp divides.
ModelShape part_of_model(ModelShape shape, int tp, int tp_rank, int layers);

class InferenceRanks {
 public:
  InferenceRanks() = default;  // one rank has all of the model
  // Borrowed, each null where it has one rank: those of a stage, and the stages in their order.
  InferenceRanks(Communicator* tensor, Communicator* pipeline, std::int64_t deadline_ms)
      : tensor_(tensor), pipeline_(pipeline), deadline_ms_(deadline_ms) {}

  bool are_several() const { return tensor_ != nullptr || pipeline_ != nullptr; }
  bool split_matrices() const { return tensor_ != nullptr; }
  int tp() const { return tensor_ ? tensor_->size() : 1; }
  int tp_rank() const { return tensor_ ? tensor_->rank() : 0; }
  bool is_first_stage() const { return pipeline_ == nullptr || pipeline_->rank() == 0; }
  bool is_last_stage() const { return pipeline_ == nullptr || pipeline_->rank() + 1 == pipeline_->size(); }

  // Rows of the vocabulary that the table of each tp rank has; the last one's may be fewer.
  std::int64_t rows_of_vocabulary(std::int64_t vocabulary) const { return (vocabulary + tp() - 1) / tp(); }

  // In place, f32, over tp.
  void sum(View partial);
  // all [tp, n]: of each tp rank its `mine` [n], f32.
  void gather(ConstView mine, View all);
  // x from the stage before, and to the next; nothing on the first, and on the last.
  void receive(View x);
  void send(ConstView x);
  // x of the last stage, to all.
  void spread_from_last(View x);
  const Status& status() const { return status_; }

 private:
  void finish(Communicator& ranks, Request request);

  Communicator* tensor_ = nullptr;
  Communicator* pipeline_ = nullptr;
  std::int64_t deadline_ms_ = 0;
  Status status_;
};

}  // namespace longhaul
