// engine/ops/attention/kv_table.h on the device: what moves rows to and from tables. Attention over a table is
// decode_kernels.h's.
#pragma once

#include "engine/ops/attention/kv_table.h"
#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// qkv [tokens, q_size + 2 kv_size]; sequences, positions [tokens]; q [tokens, q_size].
template <class T>
struct KvAppend {
  Index tokens, q_size, kv_size;
  const T* qkv;
  const std::int32_t *sequences, *positions;
  const KvPlace* places;
  T* q;
};
template <class T>
void kv_append(cudaStream_t stream, const KvAppend<T>& arguments);

// out [tokens, width] = rows ids[t] of q, each times its scale.
template <class T>
void embedding_int8(cudaStream_t stream, Index tokens, Index width, const std::int32_t* ids, const std::int8_t* q,
                    const float* scales, T* out);

}  // namespace longhaul::cuda
