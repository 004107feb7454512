// Where micro-batches come from. Samples have one global order, a function of the seed alone; a micro-batch is `count`
// neighbours of it, the same wherever it is computed.
#pragma once

#include <vector>

#include "base/error/result.h"
#include "engine/model/layers/micro_batch.h"
#include "engine/parallel/context/context_shard.h"

namespace longhaul {

// The memory behind a MicroBatch, reused from step to step.
struct BatchStorage {
  std::int64_t sequences = 0, length = 0;
  std::vector<std::int32_t> ids, targets, positions, first_key, whole_first_key;
  std::vector<float> weights;  // of each token's loss; 0 where there is no target
  std::vector<double>
      per_sequence;  // what an objective wants to know of each sequence (DPO: reference log-probabilities)
  // With context parallelism what an objective judges whole texts by is whole on every rank: the targets of all
  // sequences, [sequences, length of a sequence], where it does (judges_texts()), and all up to `returns`.
  std::vector<std::int32_t> whole_targets;
  // Log-probabilities of targets that an objective compares with, by the model that drew them and by the reference;
  // empty: of none.
  std::vector<float> drawn, reference;
  // Of the same targets, where each has its own: how much better than expected; what a critic expected of them when
  // they were drawn, and what it should have. Empty: of none.
  std::vector<float> advantages, values, returns;
  std::vector<std::uint8_t> real;  // 0 for padding; empty: there is none
  std::int64_t predicted = 0;      // tokens that have a target
  // Number of its first one in the order of all samples' sequences, in training only.
  std::int64_t first_sequence = -1;

  // Is there something that an objective wants to know of a sequence, or of its tokens, beside ids and targets?
  bool judges_texts() const { return !per_sequence.empty() || !returns.empty(); }
  std::int64_t real_tokens() const;
  // Fills `real` from the targets.
  void mark_padding();

  // What its arrays hold; fit() gives back what they have grown beyond it.
  std::int64_t bytes() const;
  void fit();
  std::int64_t fitted = 0;

  MicroBatch view() const {
    return {sequences, length, ids, targets, positions, first_key, whole_first_key, first_sequence, {}, real};
  }
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `out` with samples [first, first + count) of the global order; it goes on for ever (epoch after epoch).
  // positions and first_key are empty on entry.
  virtual Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) = 0;
  // Fills from here on are of that step (from 1), of which a source in phases has to know; `left_out`: samples that
  // rollbacks have passed over up to here.
  virtual void begin_step(std::int64_t step, std::int64_t left_out) { (void)step, (void)left_out; }
  virtual std::int64_t samples_per_epoch() const = 0;
};

// The whole micro-batch -> what a rank of a cp group computes of it (MicroBatch): padded to a length that can be
// assigned, cut, positions written out; which tokens are padding is marked. That is all with one rank.
void keep_context_shard(const ContextShard& shard, BatchStorage& batch);
// This rank's part of samples [first, first + count). All ranks of a cp group read the same.
Status fill_shard(BatchSource& source, std::int64_t first, std::int64_t count, const ContextShard& shard,
                  BatchStorage& batch);

}  // namespace longhaul
