// Room engine/ops/cuda/linear
// Kernels of linear layers where a library has none: few rows, weights of few bits, casts, fake quantisation.
// decode_kernels.h has products of few rows, and attention of one new token over a plain cache.
// weight_only_kernels.h, fp8_kernels.h and low_precision_kernels.h follow the headers of engine/ops/linear.
// It knows no cuBLASLt: large products are cuda/libraries'.
//
// Token-by-token generation on the device, where the speed is that of memory: products of few rows, and one new token
// of each sequence against its cache. Formulas as in engine/ops/linear/gemv.h and attention.h; sums in f32, in a fixed
// order that depends on no other row and no other sequence.
#pragma once

#include "engine/ops/cuda/attention/paged_kernels.h"
#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr Index product_tokens_max = 8;

struct E4m3;  // device_code.h: a byte

// y [tokens, out] = x [tokens, in] W^T, W [out, in] of T's, or of i8 or E4M3 with a scale for each row.
template <class X, class W, class Y>
struct FewRows {
  Index tokens, in, out;
  const X* x;
  const W* weight;
  const float* scales;  // of i8 and E4M3; else null
  Y* y;
};
template <class X, class W, class Y>
void few_rows_product(cudaStream_t stream, const FewRows<X, W, Y>& arguments);

// out [rows, columns] = q [rows, columns] times the scale of its row.
template <class T>
void dequantize_rows(cudaStream_t stream, Index rows, Index columns, const std::int8_t* q, const float* scales, T* out);

// q, out [sequences, heads, head_dim]. parts: decode_parts_floats() of scratch.
template <class T, class C>
struct Decode {
  Index sequences, heads, kv_heads, head_dim, longest;  // longest: of the keys that are looked at
  Index window;                                         // the last keys of a cache that are looked at; 0: all
  float scale;
  const T* q;
  const DecodeCache<C>* caches;  // [sequences], in the device's memory
  float* parts;
  T* out;
};
Index decode_parts_floats(Index sequences, Index heads, Index head_dim, Index longest);
template <class T, class C>
void attention_decode(cudaStream_t stream, const Decode<T, C>& arguments);

// As attention_merge has it: rows of batch * seq tokens; lse [batch, heads, seq].
template <class T>
struct Merge {
  Index batch, seq, heads, head_dim;
  const T* part;
  const float* part_lse;
  float *out, *lse;
};
template <class T>
void attention_merge(cudaStream_t stream, const Merge<T>& arguments);

}  // namespace longhaul::cuda
