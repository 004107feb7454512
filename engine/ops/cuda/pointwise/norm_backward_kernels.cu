#include <algorithm>

#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/common/row_parts.h"
#include "engine/ops/cuda/pointwise/norm_backward.h"

namespace longhaul::cuda {
namespace {

constexpr int row_block_threads = 1024, threads_of_long_rows = 256;
constexpr Index row_blocks = row_part_blocks / 2;  // one for each multiprocessor of an H100 or H200
constexpr int stages = 3;                          // rows under way, the one that is computed among them

struct Sums {
  float g, gn;  // of g and of g n over a row
};

// Over a row of so many warps, in a fixed order; RMSNorm has no sum of g. `parts`: two numbers for each warp of the
// row, not touched again before the next barrier of the block.
template <bool centred>
__device__ inline Sums sums_over_row(Sums sums, int warps, int warp, float* parts) {
  if (centred) sums.g = sum_over_warp(sums.g);
  sums.gn = sum_over_warp(sums.gn);
  if (warps == 1) return sums;
  if (threadIdx.x % warp_size == 0) {
    parts[warp] = sums.gn;
    if (centred) parts[warps + warp] = sums.g;
  }
  sync_block();
  sums = {0.0F, 0.0F};
  for (int i = 0; i < warps; ++i) sums.gn += parts[i];
  if (centred)
    for (int i = 0; i < warps; ++i) sums.g += parts[warps + i];
  return sums;
}

template <bool centred>
__device__ inline void read_statistics(const float* statistics, Index row, float& mean, float& r) {
  mean = centred ? statistics[2 * row] : 0.0F;
  r = centred ? statistics[2 * row + 1] : statistics[row];
}

// Threads (x, y): pack x of a row, row y of as many as the block works on at once. Rows travel to shared memory some
// rows ahead, each thread's packs to places of its own: [stages][dy, x and, where it is added to, dx][threads]. The
// sums of columns are in registers until the end; then those of the block's rows are added in their order.
template <class T, bool centred>
__global__ void __launch_bounds__(row_block_threads) norm_backward_kernel(NormBackward<T> p) {
  constexpr int n = pack_of<T>;
  auto* const held = reinterpret_cast<Words*>(shared_memory());
  const int threads = static_cast<int>(blockDim.x * blockDim.y), tensors = p.accumulate_dx ? 3 : 2;
  auto* const parts = reinterpret_cast<float*>(held + stages * tensors * threads);
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int warps = static_cast<int>(blockDim.x) / warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const Index column = static_cast<Index>(threadIdx.x) * n;
  const bool mine = column < p.hidden;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.y;
  const Index begin = static_cast<Index>(blockIdx.x) * blockDim.y;
  const auto ask = [&](Index row, int stage) {
    if (mine && row < p.tokens) {
      Words* const to = held + stage * tensors * threads + thread;
      const Index at = row * p.hidden + column;
      copy_later(to, p.dy + at), copy_later(to + threads, p.x + at);
      if (p.accumulate_dx) copy_later(to + 2 * threads, p.dx + at);
    }
    end_copy_group();
  };
  float w[n] = {}, of_weight[n] = {}, of_bias[n] = {};
  Index row = begin + threadIdx.y;
  for (int stage = 0; stage < stages - 1; ++stage) ask(row + stage * step, stage);
  if (mine) unpack<T>(read_words(p.weight + column), w);
  float mean_next = 0.0F, r_next = 0.0F;
  if (row < p.tokens) read_statistics<centred>(p.statistics, row, mean_next, r_next);
  const float each = 1.0F / static_cast<float>(p.hidden);
  int stage = 0;
  bool odd = false;
  // All rows of the block take as many turns: there is a barrier in each.
  for (Index first = begin; first < p.tokens; first += step, row += step, odd = !odd) {
    const float mean = mean_next, r = r_next;
    ask(row + (stages - 1) * step, stage == 0 ? stages - 1 : stage - 1);
    if (row + step < p.tokens) read_statistics<centred>(p.statistics, row + step, mean_next, r_next);
    wait_for_copy_groups<stages - 1>();
    const Words* const from = held + stage * tensors * threads + thread;
    stage = stage + 1 == stages ? 0 : stage + 1;
    const bool here = mine && row < p.tokens;
    float dy[n] = {}, normal[n] = {};
    Sums sums = {0.0F, 0.0F};
    if (here) {
      unpack<T>(from[0], dy), unpack<T>(from[threads], normal);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) {
        normal[j] = (normal[j] - mean) * r;
        const float g = dy[j] * w[j];
        if (centred) sums.g += g;
        sums.gn += g * normal[j];
      }
    }
    // Of every other turn in another place: one barrier a turn is enough.
    sums = sums_over_row<centred>(sums, warps, warp, parts + ((odd ? blockDim.y : 0) + threadIdx.y) * 2 * warps);
    if (!here) continue;
    const float g_mean = centred ? sums.g * each : 0.0F, gn_mean = sums.gn * each;
    float dx[n] = {};
    if (p.accumulate_dx) unpack<T>(from[2 * threads], dx);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      dx[j] += r * (dy[j] * w[j] - g_mean - normal[j] * gn_mean);
      of_weight[j] += dy[j] * normal[j];
      if (centred) of_bias[j] += dy[j];
    }
    write_words(packed<T>(dx), p.dx + row * p.hidden + column);
  }
  wait_for_copy_groups<0>();
  if (p.parts == nullptr) return;
  auto* const columns = reinterpret_cast<float*>(held);  // [rows at once, threads of a row, n]
  const int width = static_cast<int>(blockDim.x) * n;
  for (int which = 0; which < (centred ? 2 : 1); ++which) {
    sync_block();
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) columns[thread * n + j] = which == 0 ? of_weight[j] : of_bias[j];
    sync_block();
    float* const to = p.parts + (blockIdx.x * (centred ? 2 : 1) + which) * p.hidden;
    for (Index i = thread; i < p.hidden; i += threads) {
      float sum = columns[i];
      for (unsigned y = 1; y < blockDim.y; ++y) sum += columns[y * width + i];
      to[i] = sum;
    }
  }
}

// Rows that are longer, or begin anywhere, are read twice, the second time from the cache, and their columns' sums lie
// in `parts`.
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
    sums = sums_over_row<centred>(sums, threads_of_long_rows / warp_size, static_cast<int>(threadIdx.x) / warp_size,
                                  parts + (odd ? 2 * threads_of_long_rows / warp_size : 0));
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

Index norm_backward_blocks(Index tokens, Index) {
  return std::min(tokens, row_part_blocks);
}

template <class T, bool centred>
void norm_backward(cudaStream_t stream, const NormBackward<T>& p) {
  constexpr int n = pack_of<T>;
  NormBackward<T> arguments = p;
  if (p.dweight == nullptr) arguments.parts = nullptr;
  const bool aligned = rows_are_aligned<T>(p.hidden, {p.dy, p.x, p.weight, p.dx});
  const Index threads = whole_warps((p.hidden + n - 1) / n);
  Index blocks = norm_backward_blocks(p.tokens, p.hidden);
  if (aligned && threads <= row_block_threads) {
    // As many rows at once as there are threads for, but no more than leave work to every multiprocessor.
    const Index rows = std::clamp<Index>(p.tokens / row_blocks, 1, row_block_threads / threads);
    blocks = std::min((p.tokens + rows - 1) / rows, row_blocks);
    const Index held = stages * (p.accumulate_dx ? 3 : 2) * threads * rows * static_cast<Index>(sizeof(Words));
    const Index reduced = 2 * 2 * threads * rows / warp_size * static_cast<Index>(sizeof(float));
    launch("norm_backward", stream, norm_backward_kernel<T, centred>, dim3(static_cast<unsigned>(blocks)),
           dim3(static_cast<unsigned>(threads), static_cast<unsigned>(rows)), static_cast<std::size_t>(held + reduced),
           arguments);
  } else {
    const auto kernel = aligned ? long_norm_backward_kernel<T, n, centred> : long_norm_backward_kernel<T, 1, centred>;
    launch("norm_backward", stream, kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads_of_long_rows),
           4 * threads_of_long_rows / warp_size * sizeof(float), arguments);
  }
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
