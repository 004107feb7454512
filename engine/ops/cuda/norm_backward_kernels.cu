#include <algorithm>

#include "engine/ops/cuda/norm_backward.h"
#include "engine/ops/cuda/row_access.h"
#include "engine/ops/cuda/row_parts.h"

namespace longhaul::cuda {
namespace {

constexpr int threads_max = 512, threads_of_long_rows = 256;

struct Sums {
  float g, gn;  // of g and of g n over a row
};

// Over a block, in a fixed order. `parts`: two numbers per warp, not touched again before the next barrier of the
// block.
__device__ inline Sums sums_over_block(Sums sums, float* parts) {
  const int warps = static_cast<int>(blockDim.x) / warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  sums.g = sum_over_warp(sums.g), sums.gn = sum_over_warp(sums.gn);
  if (warps == 1) return sums;
  if (threadIdx.x % warp_size == 0) parts[2 * warp] = sums.g, parts[2 * warp + 1] = sums.gn;
  sync_block();
  sums = {0.0F, 0.0F};
  for (int i = 0; i < warps; ++i) sums.g += parts[2 * i], sums.gn += parts[2 * i + 1];
  return sums;
}

template <bool centred>
__device__ inline void read_statistics(const float* statistics, Index row, float& mean, float& r) {
  mean = centred ? statistics[2 * row] : 0.0F;
  r = centred ? statistics[2 * row + 1] : statistics[row];
}

// Rows of at most one pack for each thread: everything of a row stays in registers, the next row is asked for before
// the block adds up this one, and the columns' sums are written once at the end. Numbers of the row and of the one
// before it are in different places of `parts`, so that one barrier a row is enough.
template <class T, int n, bool centred>
__global__ void __launch_bounds__(threads_max) norm_backward_kernel(NormBackward<T> p) {
  float* const parts = reinterpret_cast<float*>(shared_memory());
  const Index column = static_cast<Index>(threadIdx.x) * n;
  const bool mine = column < p.hidden;
  const float count = static_cast<float>(p.hidden);
  float w[n] = {}, of_weight[n] = {}, of_bias[n] = {};
  Pack<T, n> dy_next = {}, x_next = {};
  if (mine) {
    load<n>(p.weight + column, w);
    const Index at = blockIdx.x * p.hidden + column;
    dy_next = *reinterpret_cast<const Pack<T, n>*>(p.dy + at), x_next = *reinterpret_cast<const Pack<T, n>*>(p.x + at);
  }
  float mean_next = 0.0F, r_next = 0.0F;
  read_statistics<centred>(p.statistics, blockIdx.x, mean_next, r_next);
  bool odd = false;
  for (Index row = blockIdx.x; row < p.tokens; row += gridDim.x, odd = !odd) {
    const Index at = row * p.hidden + column;
    const float mean = mean_next, r = r_next;
    float dy[n], normal[n], dx[n] = {};
    Sums sums = {0.0F, 0.0F};
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      dy[j] = to_float(dy_next.value[j]), normal[j] = (to_float(x_next.value[j]) - mean) * r;
      sums.g += dy[j] * w[j], sums.gn += dy[j] * w[j] * normal[j];
    }
    if (mine && p.accumulate_dx) load<n>(p.dx + at, dx);
    if (row + gridDim.x < p.tokens) {
      read_statistics<centred>(p.statistics, row + gridDim.x, mean_next, r_next);
      const Index next = at + gridDim.x * p.hidden;
      if (mine) dy_next = *reinterpret_cast<const Pack<T, n>*>(p.dy + next);
      if (mine) x_next = *reinterpret_cast<const Pack<T, n>*>(p.x + next);
    }
    sums = sums_over_block(sums, parts + (odd ? 2 * threads_max / warp_size : 0));
    if (!mine) continue;
    const float g_mean = centred ? sums.g / count : 0.0F, gn_mean = sums.gn / count;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      dx[j] += r * (dy[j] * w[j] - g_mean - normal[j] * gn_mean);
      of_weight[j] += dy[j] * normal[j];
      if (centred) of_bias[j] += dy[j];
    }
    store<n>(dx, p.dx + at);
  }
  if (!mine || p.parts == nullptr) return;
  float* const to = p.parts + blockIdx.x * (centred ? 2 : 1) * p.hidden + column;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) {
    to[j] = of_weight[j];
    if (centred) to[p.hidden + j] = of_bias[j];
  }
}

// Longer rows are read twice, the second time from the cache, and their columns' sums lie in `parts`.
template <class T, int n, bool centred>
__global__ void __launch_bounds__(threads_of_long_rows) long_norm_backward_kernel(NormBackward<T> p) {
  float* const parts = reinterpret_cast<float*>(shared_memory());
  const Index step = static_cast<Index>(blockDim.x) * n, first = static_cast<Index>(threadIdx.x) * n;
  const float count = static_cast<float>(p.hidden);
  float* const of_weight = p.parts == nullptr ? nullptr : p.parts + blockIdx.x * (centred ? 2 : 1) * p.hidden;
  if (of_weight != nullptr)
    for (Index i = first; i < p.hidden; i += step)
      for (int j = 0; j < n; ++j) {
        of_weight[i + j] = 0.0F;
        if (centred) of_weight[p.hidden + i + j] = 0.0F;
      }
  bool odd = false;
  for (Index row = blockIdx.x; row < p.tokens; row += gridDim.x, odd = !odd) {
    const Index at = row * p.hidden;
    float mean, r;
    read_statistics<centred>(p.statistics, row, mean, r);
    Sums sums = {0.0F, 0.0F};
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n];
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) sums.g += dy[j] * w[j], sums.gn += dy[j] * w[j] * ((x[j] - mean) * r);
    }
    sums = sums_over_block(sums, parts + (odd ? 2 * threads_of_long_rows / warp_size : 0));
    const float g_mean = centred ? sums.g / count : 0.0F, gn_mean = sums.gn / count;
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n], dx[n] = {};
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      if (p.accumulate_dx) load<n>(p.dx + at + i, dx);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) {
        const float normal = (x[j] - mean) * r;
        dx[j] += r * (dy[j] * w[j] - g_mean - normal * gn_mean);
        if (of_weight == nullptr) continue;
        of_weight[i + j] += dy[j] * normal;
        if (centred) of_weight[p.hidden + i + j] += dy[j];
      }
      store<n>(dx, p.dx + at + i);
    }
  }
}

}  // namespace

// As many as fill the GPU: short rows have small blocks, of which more fit.
Index norm_backward_blocks(Index tokens, Index hidden) {
  const Index fill = row_part_blocks * 4096 / std::max<Index>(hidden, 1);
  return std::min(tokens, std::clamp(fill, row_part_blocks, 4 * row_part_blocks));
}

template <class T, bool centred>
void norm_backward(cudaStream_t stream, const NormBackward<T>& p) {
  NormBackward<T> arguments = p;
  if (p.dweight == nullptr) arguments.parts = nullptr;
  const Index blocks = norm_backward_blocks(p.tokens, p.hidden);
  const dim3 grid(static_cast<unsigned>(blocks));
  with_width<T>(p.hidden, {p.dy, p.x, p.weight, p.dx, p.parts}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    const Index threads = whole_warps((p.hidden + n - 1) / n);
    const auto reduce_bytes = [](int most) { return 4 * static_cast<std::size_t>(most / warp_size) * sizeof(float); };
    if (threads <= threads_max)
      launch("norm_backward", stream, norm_backward_kernel<T, n, centred>, grid, dim3(static_cast<unsigned>(threads)),
             reduce_bytes(threads_max), arguments);
    else
      launch("norm_backward", stream, long_norm_backward_kernel<T, n, centred>, grid, dim3(threads_of_long_rows),
             reduce_bytes(threads_of_long_rows), arguments);
  });
  if (p.dweight == nullptr) return;
  const Index stride = (centred ? 2 : 1) * p.hidden;
  add_parts(stream, blocks, p.hidden, stride, p.parts, p.dweight);
  if (centred) add_parts(stream, blocks, p.hidden, stride, p.parts + p.hidden, p.dbias);
}

template void norm_backward<float, false>(cudaStream_t, const NormBackward<float>&);
template void norm_backward<bf16, false>(cudaStream_t, const NormBackward<bf16>&);
template void norm_backward<float, true>(cudaStream_t, const NormBackward<float>&);
template void norm_backward<bf16, true>(cudaStream_t, const NormBackward<bf16>&);

}  // namespace longhaul::cuda
