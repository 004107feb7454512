// Room engine/ops/cpu/simd
// The inner loops of the processor's operations: one table of functions for each instruction set.
// kernels.h declares the table; the .inc files hold the loops once, kernels_avx2.cc and its like compile them.
// few_rows.h and dispatch.h are shared helpers; cpu_levels.cc implements engine/ops/cpu_levels.h.
// A kernel knows neither threads nor shapes: the operations in cpu/attention and the others own them.
//
// The inner loops of the CPU operations, one table per instruction set. Rows are handed in ranges by the operations,
// which own threads and checks; a kernel knows neither. The text is kernels.inc, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "base/digest/philox.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul::cpu {

using Index = std::int64_t;

// One pass of AdamW over n elements; factors already folded (adamw.cc).
struct AdamWFactors {
  float decay, beta1, beta2, step_size, inv_sqrt_correction2, eps, grad_scale;
};

// m and v of the types in the kernel's name; copies may be null. random: bf16 moments are rounded with the bits of
// elements first, first + 1, ... (rounding_draw); null: to nearest.
using AdamWKernel = void (*)(const AdamWFactors& f, float* p, void* m, void* v, const float* g, bf16* copy,
                             float* copy_f32, const Philox* random, Index first, Index n);

// Everything an attention task needs; strides in elements. See attention.cc for the packed layouts.
struct AttentionArgs {
  Index seq, kv_seq, heads, kv_heads, head_dim, head_dim_padded;
  Index q_stride, kv_stride, out_stride;
  float scale;
  bool causal;
  const std::int32_t* first_key;  // of this batch entry [seq], or nullptr
  Index window;                   // 0: none
};
inline constexpr Index kQueryTile = 64;
inline constexpr Index kKeyTile = 64;

// A format of few bits as kernels_low_precision.inc rounds to it (number_formats.h).
struct QuantizeFormat {
  float max, overflow;       // the largest number, and from where on a value is taken for saturated
  std::int32_t least_field;  // exponent field of the smallest normal number
  std::int32_t magic_shift;  // from a value's exponent field to that of the sum that rounds it
};

// Weights of four bits (engine/ops/linear/weight_only.h).
struct Int4Row {
  const std::uint8_t* codes;
  const float* scales_f32;  // one of the two
  const bf16* scales_b16;
  const std::uint8_t* zeros;  // null: 8
  Index group;
  float scale(Index g) const { return scales_f32 ? scales_f32[g] : static_cast<float>(scales_b16[g]); }
  float zero(Index g) const { return zeros ? static_cast<float>(zeros[g]) : 8.0F; }
};
struct Int4Rows {
  Int4Row first;
  Index row_bytes, groups;
  Int4Row row(Index r) const {
    Int4Row at = first;
    at.codes += r * row_bytes;
    if (at.scales_f32) at.scales_f32 += r * groups;
    if (at.scales_b16) at.scales_b16 += r * groups;
    if (at.zeros) at.zeros += r * groups;
    return at;
  }
};

template <class T>
struct TypedKernels {
  void (*rmsnorm_forward)(const T* x, const T* weight, T* y, float* inv_rms, Index rows, Index hidden, float eps);
  void (*add_rmsnorm_forward)(const T* a, const T* b, const T* weight, T* sum, T* y, float* inv_rms, Index rows,
                              Index hidden, float eps);
  // dweight (f32, may be null) accumulates; dx written or accumulated.
  void (*rmsnorm_backward)(const T* dy, const T* x, const T* weight, const float* inv_rms, T* dx, float* dweight,
                           Index rows, Index hidden, bool accumulate_dx);
  // statistics [rows, 2] (may be null): mean and 1 / deviation.
  void (*layernorm_forward)(const T* x, const T* weight, const T* bias, T* y, float* statistics, Index rows,
                            Index hidden, float eps);
  void (*add_layernorm_forward)(const T* a, const T* b, const T* column_bias, const T* weight, const T* bias, T* sum,
                                T* y, float* statistics, Index rows, Index hidden, float eps);
  void (*layernorm_backward)(const T* dy, const T* x, const T* weight, const float* statistics, T* dx, float* dweight,
                             float* dbias, Index rows, Index hidden, bool accumulate_dx);
  void (*gelu_forward)(const T* x, T* y, Index n);
  void (*gelu_backward)(const T* dy, const T* x, T* dx, Index n);
  void (*swiglu_forward)(const T* gate, const T* up, T* out, Index n);
  void (*swiglu_backward)(const T* dout, const T* gate, const T* up, T* dgate, T* dup, Index n);
  void (*add)(const T* a, const T* b, T* out, Index n);
  void (*accumulate_f32)(const T* x, float* y, Index n);  // y += x
  void (*rope)(T* head, const float* cosines, const float* sines, Index half_dim, float sign);
  // Loss of one row; dz (may be null, may be z) = weight * (softmax - onehot).
  float (*cross_entropy)(const T* z, Index vocab, Index target, float weight, T* dz);
  void (*to_f32)(const T* x, float* y, Index n);
  void (*from_f32)(const float* x, T* y, Index n);
  void (*softmax)(const T* z, Index n, float inv_temperature, float* p);
  // y[tokens][row] for weight rows [begin, end): x f32 [tokens][k_padded], y_out f32 [tokens][n].
  void (*gemv)(const float* x, Index k_padded, Index tokens, const T* weight, Index k, Index begin, Index end, float* y,
               Index n);
  // Packs keys and values of one (batch, kv head): kt[block][d][64], vr[key][d_padded].
  void (*attention_pack)(const AttentionArgs& a, const T* k, const T* v, Index key_begin, Index key_end, float* kt,
                         float* vr);
  // One head, query rows [begin, end) (at most kQueryTile). q, out: at token 0 of this head. lse at row 0, or null.
  void (*attention_forward)(const AttentionArgs& a, const T* q, const float* kt, const float* vr, T* out, float* lse,
                            Index begin, Index end, float* scratch);
  // One (batch, kv head) with its group of query heads; pointers at token 0 of the first head of the group.
  void (*attention_backward)(const AttentionArgs& a, const T* dout, const T* q, const T* k, const T* v, const T* out,
                             const float* lse, T* dq, T* dk, T* dv, float* scratch);
  // One (sequence, kv head): q f32 [group][head_dim_padded] scaled; out f32 [group][head_dim_padded].
  void (*attention_decode)(const float* q, Index group, const T* k, const T* v, Index length, Index stride,
                           Index head_dim, Index head_dim_padded, float* out, float* scores);
  void (*quantize_magnitudes)(const T* x, Index n, Index block, std::uint32_t* bits);
  void (*quantize_row)(const T* x, T* y, Index n, Index block, const float* inverses, const float* scales,
                       const QuantizeFormat& format, double* sums);
  // What rows of codes stand for, out [rows, k]; scales of these rows, or null: 1. fp8: no code is NaN.
  void (*unpack_int8)(const std::int8_t* codes, const float* scales, Index k, Index rows, T* out);
  void (*unpack_fp8)(const std::uint8_t* codes, const float* scales, Index k, Index rows, T* out);
  void (*unpack_int4)(const Int4Rows& weight, Index k, Index begin, Index rows, T* out);
};

struct Kernels {
  CpuLevel level;
  // c[m][n] (ldc) = or += sum over k of a[m * a_row + k * a_col] * b[k][n] (ldb); n a multiple of 16, all f32.
  void (*gemm_tile)(Index m, Index n, Index k, const float* a, Index a_row, Index a_col, const float* b, Index ldb,
                    float* c, Index ldc, bool accumulate);
  // By the types of the moments (m, v).
  AdamWKernel adamw_f32_f32, adamw_bf16_f32, adamw_bf16_bf16;
  void (*axpy)(float alpha, const float* x, float* y, Index n);
  void (*scale)(float alpha, float* x, Index n);
  double (*sum_of_squares)(const float* x, Index n);
  double (*sum)(const float* x, Index n);
  // The f32 row becomes a bf16 row at the same address (of half the bytes).
  float (*cross_entropy_to_bf16)(const float* z, Index vocab, Index target, float weight, bf16* dz);
  // Of a shard of a row of logits (cross_entropy_shard.h); target -1: in another shard.
  float (*row_top)(const float* z, Index n);
  float (*row_exp_total)(const float* z, Index n, float top);
  void (*cross_entropy_shard)(const float* z, Index n, Index target, float weight, float top, float total, float* dz);
  void (*cross_entropy_shard_to_bf16)(const float* z, Index n, Index target, float weight, float top, float total,
                                      bf16* dz);
  void (*gemv_int8)(const float* x, Index k_padded, Index tokens, const std::int8_t* weight, const float* scales,
                    Index k, Index begin, Index end, float* y, Index n);
  void (*gemv_fp8)(const float* x, Index k_padded, Index tokens, const std::uint8_t* codes, const float* scales,
                   Index k, Index begin, Index end, float* y, Index n);
  void (*gemv_int4)(const float* x, Index k_padded, Index tokens, const Int4Rows& weight, Index k, Index begin,
                    Index end, float* y, Index n);
  void (*exp_array)(const float* x, float* y, Index n);  // for tests of the polynomial
  TypedKernels<float> f32;
  TypedKernels<bf16> b16;

  template <class T>
  const TypedKernels<T>& of() const;
};
template <>
inline const TypedKernels<float>& Kernels::of<float>() const {
  return f32;
}
template <>
inline const TypedKernels<bf16>& Kernels::of<bf16>() const {
  return b16;
}

// The table for a context's level, or the best below it that this processor can run.
const Kernels& kernels(const ComputeContext& context);
// Of that table: portable, avx2, avx512 or avx512_bf16.
const char* kernels_name(const ComputeContext& context);
// No table above this one from now on (cpu_levels.h: cap_cpu_level).
void cap_kernels(CpuLevel level);
bool processor_has(CpuLevel level);

// Floats of scratch that the attention kernels need.
Index attention_forward_scratch(const AttentionArgs& a);
Index attention_backward_scratch(const AttentionArgs& a);

}  // namespace longhaul::cpu
