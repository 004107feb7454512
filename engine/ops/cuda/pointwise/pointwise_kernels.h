// Room engine/ops/cuda/pointwise
// Kernels on elements and rows: norms, activations, embedding, AdamW, dropout.
// pointwise_kernels.h has the single elements; norm_kernels.h, layernorm_kernels.h, norm_backward.h the norms.
// update_kernels.h draws the same random bits as the processor; table_kernels.h is the embedding.
// It may include neither cuda/linear nor cuda/libraries: no product is computed here.
//
// Operations that take each element by itself, and sums over flat arrays; formulas as in elementwise.h, swiglu.h,
// gelu.h, linear_relu.h and rope.h of engine/ops. In place where those allow it.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

template <class T>
void add(cudaStream_t stream, Index n, const T* a, const T* b, T* out);
// Each row of y [rows, columns] += x [columns].
template <class T>
void add_to_rows(cudaStream_t stream, Index rows, Index columns, const T* x, T* y);
void axpy(cudaStream_t stream, Index n, float alpha, const float* x, float* y);
void scale(cudaStream_t stream, Index n, float alpha, float* x);
template <class T>
void fill(cudaStream_t stream, Index n, float value, T* x);
template <class From, class To>
void cast(cudaStream_t stream, Index n, const From* x, To* out);

// Rows of gate, up, dgate, dup begin `row_stride` elements apart.
template <class T>
void swiglu_forward(cudaStream_t stream, Index tokens, Index ffn, Index row_stride, const T* gate, const T* up, T* out);
template <class T>
void swiglu_backward(cudaStream_t stream, Index tokens, Index ffn, Index row_stride, const T* dout, const T* gate,
                     const T* up, T* dgate, T* dup);
template <class T>
void gelu_forward(cudaStream_t stream, Index n, const T* x, T* y);
template <class T>
void gelu_backward(cudaStream_t stream, Index n, const T* dy, const T* x, T* dx);

// x where `kept` is above 0, else 0; kept may be x.
void keep_positive(cudaStream_t stream, Index n, const float* kept, float* x);

// x [tokens, heads, head_dim], tokens `row_stride` elements apart; tables [positions, head_dim / 2]. positions
// [tokens], or null: token t stands at t % seq. direction -1: the backward pass.
template <class T>
struct Rope {
  Index tokens, heads, head_dim, row_stride, seq;
  const float *cosines, *sines;
  const std::int32_t* positions;
  float direction;
  T* x;
};
template <class T>
void rope(cudaStream_t stream, const Rope<T>& arguments);

// out[0] = sum of f(x), in f64: partial sums of fixed pieces, added up in their order; the same bits wherever x begins.
// parts: flat_sum_parts(n) of f64.
enum class FlatSum { value, square, not_finite };  // not_finite: how many are not
Index flat_sum_parts(Index n);
void flat_sum(cudaStream_t stream, FlatSum kind, Index n, const float* x, double* parts, double* out);

}  // namespace longhaul::cuda
