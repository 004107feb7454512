// Room engine/ops/loss
// The contracts of what is done with logits (loss, next token), and of checksums of arrays.
// cross_entropy.h is the whole vocabulary on one rank, cross_entropy_shard.h a part; sample.h draws tokens.
// digest.h is no loss: it lets ranks compare what they contribute to a sum.
// It knows no communication: the caller exchanges the sums of a shard.
//
// Softmax cross-entropy over the vocabulary: loss[t] = logsumexp(z[t]) - z[t, target]; dz[t] = w[t] (softmax(z[t]) -
// onehot). Weights carry everything that is linear in the loss: 0 masks a token, 1 / tokens averages, DPO puts its own
// factor there.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct CrossEntropyShape {
  std::int64_t tokens = 0, vocab = 0;
};

// logits [tokens, vocab] f32 or bf16. targets[t] in [0, vocab), or -1, or -2 for padding: ignored (loss 0, gradient 0).
// loss[t] is unweighted; the log-probability of the target is -loss[t].
void cross_entropy_forward(const ComputeContext& context, CrossEntropyShape shape, ConstView logits,
                           std::span<const std::int32_t> targets, std::span<float> loss);

// Loss and gradient in one go. dlogits has the type of logits and may be the same memory.
void cross_entropy_forward_backward(const ComputeContext& context, CrossEntropyShape shape, ConstView logits,
                                    std::span<const std::int32_t> targets, std::span<const float> weights,
                                    std::span<float> loss, View dlogits);

// The output layer and its loss together, `chunk_tokens` tokens at a time, so that [tokens, vocab] is never held:
// logits = x W^T (f32), loss as above, dx = dz W (written), dW += dz^T x (f32; or written).
struct LmHeadShape {
  std::int64_t tokens = 0, hidden = 0, vocab = 0;
  std::int64_t chunk_tokens = 1024;
  bool accumulate = true;  // false: dweight is written, which saves zeroing and reading it
};
// x [tokens, hidden], weight [vocab, hidden], dx [tokens, hidden] of one type (f32 or bf16); dweight [vocab, hidden]
// f32. dx empty: only the losses (evaluation, target log-probabilities). dweight empty: not wanted (frozen).
void lm_head_loss(const ComputeContext& context, const LmHeadShape& shape, ConstView x, ConstView weight,
                  std::span<const std::int32_t> targets, std::span<const float> weights, std::span<float> loss, View dx,
                  View dweight);

}  // namespace longhaul
