// Room engine/ops/cuda/attention
// Kernels of attention: the plain one that all others are compared with, and one for tensor cores.
// attention_kernels.h is f32, tensor_attention_kernels.h bf16, key_range.h the mask of both; paged_kernels.h and
// kv_table_kernels.h generate. Attention over one cache without pages is in cuda/linear/decode_kernels.h, which this
// room may not include.
//
// Attention on the device, f32 sums in ordinary arithmetic: what every other path is compared with, and what is used
// where no faster one knows the case. Formulas, masks and arguments as in engine/ops/attention/attention.h. No atomics:
// a tile of queries adds up its dq, a tile of keys its dk and dv, each in a fixed order.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr Index attention_head_dim_max = 256;

struct AttentionSizes {
  Index batch, seq, kv_seq, heads, kv_heads, head_dim;
  bool causal = true;
  Index q_stride, kv_stride, out_stride, kv_batch_stride;  // elements; none may be 0
  float scale;
  const std::int32_t* first_key;  // [batch, seq] or null
  Index window = 0;               // with causal alone; 0: none
};
template <class T>
struct AttentionForward {
  AttentionSizes sizes;
  const T *q, *k, *v;
  T* out;
  float* lse;  // [batch, heads, seq] or null
};
template <class T>
void attention_forward(cudaStream_t stream, const AttentionForward<T>& arguments);

template <class T>
struct AttentionBackward {
  AttentionSizes sizes;
  const T *dout, *q, *k, *v, *out;
  const float* lse;
  T *dq, *dk, *dv;  // with the strides of q, k, v
  float* delta;     // [batch, heads, seq] of scratch
};
template <class T>
void attention_backward(cudaStream_t stream, const AttentionBackward<T>& arguments);

}  // namespace longhaul::cuda
