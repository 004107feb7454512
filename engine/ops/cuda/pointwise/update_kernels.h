// AdamW and dropout on the device: the formulas of engine/ops/pointwise/adamw.h and dropout.h, and their random bits,
// which belong to (seed, parameter or place, element).
#pragma once

#include "base/digest/philox.h"
#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/linear/stochastic_rounding.h"

namespace longhaul::cuda {

// Arrays of n; M and V are the moments' types. One pass: each element is read and written once.
template <class M, class V>
struct AdamW {
  Index n;
  float decay, beta1, beta2, step_size, inverse_root_correction2, eps, grad_scale;
  float* master;
  M* m;
  V* v;
  const float* grad;
  bf16* copy;        // null: none wanted
  float* wide_copy;  // null: none wanted
  bool stochastic;
  Philox random;  // with stochastic:
  ElementOrder order;
  Index first;  // element of the box that comes first in the arrays
};
template <class M, class V>
void adamw(cudaStream_t stream, const AdamW<M, V>& arguments);

template <class T>
struct Dropout {
  Index rows, columns;
  Index first_column, row_columns;  // of a token's row, of which x has `columns`
  std::uint64_t seed, stream_base, places, place;
  Index sample, length, first, offset;
  std::uint32_t threshold;  // of 16 bits: dropped below
  float scale, less;        // what is kept is multiplied by scale - less, the rest by -less
  const T* x;
  T* out;
};
template <class T>
void dropout(cudaStream_t stream, const Dropout<T>& arguments);

}  // namespace longhaul::cuda
