// Rows sorted by expert on the device: engine/ops/experts/moe_dispatch.h. Whole numbers are counted, ranked and
// scattered in the order of slots, without atomics: the same plan as the processor's.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

struct DispatchOnDevice {
  Index slots, experts, rows;  // rows: that there is room for
  int top_k;
  // Without a rule capacity is as many as there are slots.
  Index capacity;
  bool by_weight, pad;
  const std::int32_t* ids;
  const float* weights;
  std::int64_t* offsets;
  std::int32_t *row_slot, *row_token, *slot_row;
  // Scratch of dispatch_scratch() ints: before [chunks, experts], first [experts + 1], order and kept [slots].
  std::int32_t *before, *first, *order, *kept;
};
Index dispatch_chunks(Index slots);
void moe_dispatch(cudaStream_t stream, const DispatchOnDevice& plan);

// counts[e] = how many of ids [n] are e.
void moe_count(cudaStream_t stream, Index n, Index experts, const std::int32_t* ids, float* counts);

// out[r] = x[index[r]], or zeros; rows of `bytes` bytes.
void gather_rows(cudaStream_t stream, Index rows, Index bytes, const void* x, const std::int32_t* index, void* out);

// out[t] (+)= sum over slots of weight rows[slot_row]; weights null: 1.
template <class T>
struct Combine {
  Index tokens, hidden;
  int top_k;
  bool accumulate;
  const std::int32_t* slot_row;
  const T* rows;
  const float* weights;
  T* out;
};
template <class T>
void moe_combine(cudaStream_t stream, const Combine<T>& p);

template <class T>
struct CombineBackward {
  Index slots, rows, hidden;
  int top_k;
  const std::int32_t *row_slot, *slot_row;
  const T *dout, *x;  // x: the rows, which drows may be
  const float* weights;
  T* drows;
  float* dweights;
};
template <class T>
void moe_combine_backward(cudaStream_t stream, const CombineBackward<T>& p);

}  // namespace longhaul::cuda
