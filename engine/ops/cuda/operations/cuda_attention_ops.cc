#include "engine/ops/cuda/operations/cuda_attention_ops.h"

// Attention: which implementation a call takes, and its arguments.
#include <cmath>
#include <type_traits>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/attention/tensor_attention_kernels.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

AttentionSizes sizes_of(const AttentionShape& s, std::span<const std::int32_t> first_key) {
  AttentionSizes a{};
  a.batch = s.batch, a.seq = s.seq, a.kv_seq = s.kv_seq == 0 ? s.seq : s.kv_seq;
  a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.causal = s.causal;
  a.q_stride = s.q_stride == 0 ? s.heads * s.head_dim : s.q_stride;
  a.kv_stride = s.kv_stride == 0 ? s.kv_heads * s.head_dim : s.kv_stride;
  a.out_stride = s.out_stride == 0 ? s.heads * s.head_dim : s.out_stride;
  a.kv_batch_stride = s.kv_batch_stride == 0 ? a.kv_seq * a.kv_stride : s.kv_batch_stride;
  a.scale = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(s.head_dim));
  a.first_key = first_key.empty() ? nullptr : first_key.data();
  a.window = s.window < a.kv_seq ? s.window : 0;
  const std::string text = format("attention batch={} seq={} kv_seq={} heads={} kv_heads={} head_dim={}", s.batch,
                                  s.seq, s.kv_seq, s.heads, s.kv_heads, s.head_dim);
  LH_ASSERT(s.batch >= 0 && s.seq >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0, text);
  LH_ASSERT(s.head_dim >= 1 && s.head_dim <= attention_head_dim_max, text);
  LH_ASSERT(a.kv_seq >= s.seq || !s.causal, text);
  LH_ASSERT(s.window == 0 || (s.window > 0 && s.causal), format("{}, window={}", text, s.window));
  if (!first_key.empty()) check_size(first_key.size(), s.batch * s.seq, "first_key");
  return a;
}
Index query_extent(const AttentionSizes& a, Index stride) {
  return rows_extent(a.batch * a.seq, stride, a.heads * a.head_dim);
}
Index key_extent(const AttentionSizes& a) {
  if (a.batch == 0) return 0;
  return (a.batch - 1) * a.kv_batch_stride + rows_extent(a.kv_seq, a.kv_stride, a.kv_heads * a.head_dim);
}

template <class T>
AttentionCase case_of(const AttentionSizes& a, bool aligned) {
  AttentionCase c;
  c.dtype = std::is_same_v<T, bf16> ? DType::bf16 : DType::f32;
  c.batch = a.batch, c.seq = a.seq, c.kv_seq = a.kv_seq, c.heads = a.heads, c.kv_heads = a.kv_heads;
  c.head_dim = a.head_dim, c.causal = a.causal, c.documents = a.first_key != nullptr, c.aligned = aligned;
  c.window = a.window;
  c.q_stride = a.q_stride, c.kv_stride = a.kv_stride, c.out_stride = a.out_stride;
  c.kv_batch_stride = a.kv_batch_stride;
  return c;
}
bool starts_well(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}
template <class T>
bool is_aligned(const AttentionSizes& a, std::initializer_list<const T*> tensors) {
  constexpr Index bytes = 16;
  bool aligned = true;
  for (const T* tensor : tensors) aligned = aligned && starts_well(tensor);
  for (const Index stride : {a.head_dim, a.q_stride, a.kv_stride, a.out_stride, a.kv_batch_stride})
    aligned = aligned && stride * static_cast<Index>(sizeof(T)) % bytes == 0;
  return aligned;
}

}  // namespace

void CudaAttentionOps::attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
                                         Floats lse, Ids first_key) const {
  const AttentionSizes a = sizes_of(shape, first_key);
  if (a.batch == 0) return;
  if (!lse.empty()) check_size(lse.size(), a.batch * a.heads * a.seq, "lse");
  with_float_type(q.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    const AttentionForward<T> p{a,
                                elements<T>(q, query_extent(a, a.q_stride), "q"),
                                elements<T>(k, key_extent(a), "k"),
                                elements<T>(v, key_extent(a), "v"),
                                elements<T>(out, query_extent(a, a.out_stride), "out"),
                                lse.empty() ? nullptr : lse.data()};
    AttentionCase asked = case_of<T>(a, is_aligned<T>(a, {p.q, p.k, p.v, p.out}));
    asked.lse = p.lse != nullptr, asked.lse_aligned = starts_well(p.lse);
    const AttentionWay way = ways_.way_of(asked);
    if constexpr (std::is_same_v<T, bf16>) {
      if (way == AttentionWay::cudnn) return ways_.library().forward(asked, p);
      LH_ASSERT((way == AttentionWay::tensor_cores) == tensor_attention_knows(p), asked.text());
      if (way == AttentionWay::tensor_cores) return tensor_attention_forward(work_.stream, p);
    }
    cuda::attention_forward<T>(work_.stream, p);
  });
}

void CudaAttentionOps::attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k,
                                          ConstView v, ConstView out, ConstFloats lse, View dq, View dk, View dv,
                                          Ids first_key) const {
  const AttentionSizes a = sizes_of(shape, first_key);
  if (a.batch == 0) return;
  check_size(lse.size(), a.batch * a.heads * a.seq, "lse");
  const Index of_q = query_extent(a, a.q_stride), of_out = query_extent(a, a.out_stride), of_k = key_extent(a);
  with_float_type(q.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    AttentionBackward<T> p{a,
                           elements<T>(dout, of_out, "dout"),
                           elements<T>(q, of_q, "q"),
                           elements<T>(k, of_k, "k"),
                           elements<T>(v, of_k, "v"),
                           elements<T>(out, of_out, "out"),
                           lse.data(),
                           elements<T>(dq, of_q, "dq"),
                           elements<T>(dk, of_k, "dk"),
                           elements<T>(dv, of_k, "dv"),
                           nullptr};
    AttentionCase asked = case_of<T>(a, is_aligned<T>(a, {p.dout, p.q, p.k, p.v, p.out, p.dq, p.dk, p.dv}));
    asked.backward = true, asked.lse_aligned = starts_well(p.lse);
    const AttentionWay way = ways_.way_of(asked);
    if constexpr (std::is_same_v<T, bf16>)
      if (way == AttentionWay::cudnn) return ways_.library().backward(asked, p);
    p.delta = reinterpret_cast<float*>(work_.scratch(0, a.batch * a.heads * a.seq * 4));
    if constexpr (std::is_same_v<T, bf16>) {
      LH_ASSERT((way == AttentionWay::tensor_cores) == tensor_attention_knows(p), asked.text());
      if (way == AttentionWay::tensor_cores) return tensor_attention_backward(work_.stream, p);
    }
    cuda::attention_backward<T>(work_.stream, p);
  });
}

}  // namespace longhaul::cuda
