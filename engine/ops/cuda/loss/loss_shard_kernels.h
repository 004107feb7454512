// Cross-entropy of rows of which each rank has some columns (engine/ops/loss/cross_entropy_shard.h), on the device.
// Logits are f32 or bf16 and may become their own gradient; one block per row.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// Columns [first, first + columns) of the vocabulary, in rows of as many.
template <class T>
struct LossShard {
  Index tokens, columns, first;
  const T* logits;
  const float* tops;            // [tokens] largest of the whole rows
  const float* sums;            // [2 * tokens] over all shards
  const std::int32_t* targets;  // [tokens] of the whole vocabulary; -1: none
  const float* weights;         // [tokens]
  T* gradient;                  // may be the logits
};

// tops[t] = largest of this shard's row.
template <class T>
void shard_tops(cudaStream_t stream, Index tokens, Index columns, const T* logits, float* tops);
// sums [2 * tokens] of this shard; of `p` those over all shards, weights and gradient are not looked at.
template <class T>
void shard_sums(cudaStream_t stream, const LossShard<T>& p, float* sums);
void losses_of_sums(cudaStream_t stream, Index tokens, const float* sums, const std::int32_t* targets, float* loss);
template <class T>
void shard_gradient(cudaStream_t stream, const LossShard<T>& p);

}  // namespace longhaul::cuda
