// Embedding on the device; arguments as in engine/ops/pointwise/embedding.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// ids [tokens] of rows of table [vocab, hidden]; -1: out is zero.
template <class T>
void embedding_forward(cudaStream_t stream, Index tokens, Index hidden, const std::int32_t* ids, const T* table,
                       T* out);

// dtable[ids[t]] += dout[t], f32, in the order of the tokens. links: [2, tokens] of scratch.
template <class T>
void embedding_backward(cudaStream_t stream, Index tokens, Index hidden, const std::int32_t* ids, const T* dout,
                        float* dtable, std::int32_t* links);

}  // namespace longhaul::cuda
