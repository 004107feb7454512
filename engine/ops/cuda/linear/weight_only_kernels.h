// Weights of eight and four bits on the device, as engine/ops/linear/weight_only.h has them. Products of few rows with
// E4M3 are few_rows_product() of decode_kernels.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

struct Int4Rows {
  Index group, groups, row_bytes;
  const std::uint8_t* codes;  // [rows, row_bytes]
  const void* scales;         // [rows, groups]
  bool scales_are_bf16;
  const std::uint8_t* zeros;  // [rows, groups]; null: 8
};

// y [tokens, out] = x [tokens, in] W^T; tokens <= product_tokens_max.
template <class X, class Y>
struct FewRowsInt4 {
  Index tokens, in, out;
  const X* x;
  Int4Rows weight;
  Y* y;
};
template <class X, class Y>
void few_rows_int4(cudaStream_t stream, const FewRowsInt4<X, Y>& arguments);

// Rows of the weight, from its first one on, in T.
template <class T>
void unpack_fp8(cudaStream_t stream, Index rows, Index columns, const std::uint8_t* codes, const float* scales, T* out);
template <class T>
void unpack_int4(cudaStream_t stream, Index rows, Index columns, const Int4Rows& weight, T* out);

}  // namespace longhaul::cuda
