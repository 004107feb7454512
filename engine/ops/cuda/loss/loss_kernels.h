// Room engine/ops/cuda/loss
// Kernels over rows of logits (cross-entropy, softmax, sampling), and the checksums of arrays.
// loss_kernels.h, loss_shard_kernels.h, sample_kernels.h and digest_kernels.h each follow a header of ops/loss.
// It sends nothing between ranks: a shard's sums are handed back to the caller.
//
// Cross-entropy and softmax over rows of logits, on the device; formulas and arguments as in
// engine/ops/loss/cross_entropy.h and softmax.h. One block per row; dlogits may be the logits.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// Rows of logits begin `stride` elements apart. targets [tokens], -1: loss 0, gradient 0. weights [tokens]; null: no
// gradient is wanted.
template <class T>
struct CrossEntropy {
  Index tokens, vocab, stride;
  const T* logits;
  const std::int32_t* targets;
  const float* weights;
  float* loss;
  T* dlogits;
};
template <class T>
void cross_entropy(cudaStream_t stream, const CrossEntropy<T>& arguments);

template <class T>
void softmax_rows(cudaStream_t stream, Index rows, Index columns, const T* logits, float inverse_temperature,
                  float* probabilities);

}  // namespace longhaul::cuda
