// A forward pass of a model for generation up to the last norm, and the product over the vocabulary: weights, scratch
// memory and the tables of the step. What is made of the logits is inference_model.h's.
#pragma once

#include <span>

#include "engine/model/inference/cache/kv_cache.h"
#include "engine/model/inference/cached_attention.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/inference/inference_scratch.h"
#include "engine/model/inference/inference_weights.h"
#include "engine/model/inference/ranks/rank_sums.h"
#include "engine/model/inference/step_table.h"
#include "engine/ops/attention/rope.h"

namespace longhaul {

// One thread; may be moved.
class InferenceBlocks {
 public:
  // `shape`: of the whole model; `weights`: this rank's.
  InferenceBlocks(const ModelShape& shape, InferenceWeights weights, InferenceRanks ranks);

  const ModelShape& shape() const { return shape_; }
  const ModelShape& part() const { return part_; }  // this rank's; the same where there is one
  const InferenceWeights& weights() const { return weights_; }
  const InferenceRanks& ranks() const { return sums_.ranks(); }
  // Of the steps that begin() was given.
  const StepTable& table() const { return table_; }
  StepTable& table() { return table_; }
  View normed() { return first_of(scratch_.normed); }  // [tokens, hidden], behind the last norm
  View spare() { return first_of(scratch_.out); }      // as large, free until the next run()

  // Steps that can be done (step_check.h): what stands before every text goes into caches that are empty, and tables
  // are filled. Then run(), and finish() moves the caches on.
  void begin(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<const SampleRow> draws);
  // Sequences are at most as long as `longest`.
  void run(const ComputeContext& context, std::span<const SequenceStep> steps, std::int64_t longest) {
    run(context, steps, longest, weights_.embedding);
  }
  static void finish(std::span<const SequenceStep> steps);
  // out [rows, vocab] f32 of as many normed rows, on every rank.
  void project(const ComputeContext& context, ConstView normed, View out);
  void take_scratch(const ComputeContext& context, const InferenceLoad& load, KvPool& pool);

 private:
  int layers() const { return static_cast<int>(weights_.blocks.size()); }  // on this rank
  View first_of(Tensor& rows) { return rows.view().rows(0, table_.tokens()); }
  RowsHere rows_of_embedding() const;
  // Ids are rows of a table, of which some are here.
  void lay_out(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<const SampleRow> draws,
               const RowsHere& here);
  void read_prompts(const ComputeContext& context, std::span<const SequenceStep> steps);
  // Ids are rows of `table`.
  void run(const ComputeContext& context, std::span<const SequenceStep> steps, std::int64_t longest,
           const LinearWeights& table);
  void run_block(const ComputeContext& context, std::span<const SequenceStep> steps, int layer, std::int64_t longest);
  void embed(const ComputeContext& context, const LinearWeights& table);

  ModelShape shape_;
  InferenceWeights weights_;
  RankSums sums_;
  ModelShape part_;
  RopeTable rope_;
  StepTable table_;
  InferenceScratch scratch_;
  CachedAttention attention_;
};

}  // namespace longhaul
