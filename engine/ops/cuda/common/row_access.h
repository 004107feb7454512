// How kernels that work on rows are started: with accesses of 16 bytes where every row begins at a multiple of them.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "engine/ops/cuda/common/device_code.h"

namespace longhaul::cuda {

template <class T>
bool rows_are_aligned(Index columns, std::initializer_list<const void*> starts) {
  if (columns % pack_of<T> != 0) return false;
  for (const void* start : starts)
    if (reinterpret_cast<std::uintptr_t>(start) % 16 != 0) return false;
  return true;
}

// f(T, n): of the type, with n elements for each access.
template <int n>
struct Width {
  static constexpr int value = n;
};
template <class T, class F>
void with_width(Index columns, std::initializer_list<const void*> starts, const F& f) {
  if (rows_are_aligned<T>(columns, starts))
    f(Width<pack_of<T>>{});
  else
    f(Width<1>{});
}

// Threads of a block that has a row to itself: as many as it has packs of n elements, in whole warps.
inline constexpr int row_threads_max = 512;
inline constexpr std::size_t reduce_bytes = row_threads_max / warp_size * sizeof(float);  // an f32 of each of its warps
inline Index whole_warps(Index threads) {
  return (threads + warp_size - 1) / warp_size * warp_size;
}
inline unsigned threads_of_row(Index columns, int n) {
  return static_cast<unsigned>(std::clamp<Index>(whole_warps((columns + n - 1) / n), warp_size, row_threads_max));
}

inline unsigned blocks_for(Index n, Index per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

}  // namespace longhaul::cuda
