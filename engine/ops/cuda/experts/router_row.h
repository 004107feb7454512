// What the kernels of a router do with one row of logits: a warp for each row, all lanes get the result.
#pragma once

#include "engine/ops/cuda/common/device_code.h"

namespace longhaul::cuda::router {

inline constexpr float sigmoid_sum_eps = 1e-20F;

__device__ inline float sigmoid_of(float z) {
  return 1.0F / (1.0F + expf(-z));
}

// softmax(z) of any z of the row.
struct RowSoftmax {
  float top, total;
  __device__ float of(float z) const { return expf(z - top) / total; }
  __device__ double lse() const { return static_cast<double>(top) + log(static_cast<double>(total)); }
};
__device__ inline RowSoftmax softmax_of(const float* z, int n) {
  RowSoftmax row{-INFINITY, 0.0F};
  for (int i = lane_here(); i < n; i += warp_size) row.top = larger(row.top, z[i]);
  row.top = max_over_warp(row.top);
  for (int i = lane_here(); i < n; i += warp_size) row.total += expf(z[i] - row.top);
  row.total = sum_over_warp(row.total);
  return row;
}
// Over the values that `ids` [n] names.
__device__ inline RowSoftmax softmax_of(const float* z, const std::int32_t* ids, int n) {
  RowSoftmax row{-INFINITY, 0.0F};
  for (int i = lane_here(); i < n; i += warp_size) row.top = larger(row.top, z[ids[i]]);
  row.top = max_over_warp(row.top);
  for (int i = lane_here(); i < n; i += warp_size) row.total += expf(z[ids[i]] - row.top);
  row.total = sum_over_warp(row.total);
  return row;
}

// NaN is larger than everything else; of equal values the lower index goes first. index < 0: none.
template <class T>
struct BestValue {
  T value;
  int index;
  __device__ bool before(const BestValue& other) const {
    if (index < 0 || other.index < 0) return index >= 0;
    const bool nan = value != value, other_nan = other.value != other.value;
    if (value > other.value || (nan && !other_nan)) return true;
    if (other.value > value || (other_nan && !nan)) return false;
    return index < other.index;
  }
};
using Best = BestValue<float>;

// The first of values[begin .. end) that are not marked.
template <class T>
__device__ inline BestValue<T> best_of(const T* values, const int* taken, int begin, int end) {
  BestValue<T> mine{0, -1};
  for (int i = begin + lane_here(); i < end; i += warp_size) {
    const BestValue<T> here{values[i], i};
    if (taken[i] == 0 && here.before(mine)) mine = here;
  }
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) {
    const BestValue<T> other{shuffle_xor(mine.value, mask), shuffle_xor(mine.index, mask)};
    if (other.before(mine)) mine = other;
  }
  return mine;
}
// The first k, which are marked.
template <class T>
__device__ inline void take_best(const T* values, int* taken, int n, int k, std::int32_t* ids) {
  for (int j = 0; j < k; ++j) {
    const int index = best_of(values, taken, 0, n).index;
    if (lane_here() == 0) ids[j] = index, taken[index] = 1;
    sync_warp();
  }
}

}  // namespace longhaul::cuda::router
