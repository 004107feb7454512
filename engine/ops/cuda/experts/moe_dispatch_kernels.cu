#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/experts/moe_dispatch_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int chunk = 256;  // slots, one to a thread
constexpr int scan_threads = 256;
constexpr int row_threads = 128;

// The ids of a chunk in shared memory; -1 behind the last.
__device__ inline std::int32_t* take_ids(const DispatchOnDevice& p) {
  auto* const ids = reinterpret_cast<std::int32_t*>(shared_memory());
  const Index slot = static_cast<Index>(blockIdx.x) * chunk + threadIdx.x;
  ids[threadIdx.x] = slot < p.slots ? p.ids[slot] : -1;
  sync_block();
  return ids;
}

__global__ void __launch_bounds__(chunk) count_kernel(DispatchOnDevice p) {
  const std::int32_t* const ids = take_ids(p);
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += chunk) {
    std::int32_t count = 0;
    for (int i = 0; i < chunk; ++i) count += ids[i] == e ? 1 : 0;
    p.before[static_cast<Index>(blockIdx.x) * p.experts + e] = count;
  }
}

__device__ inline Index kept_of(const DispatchOnDevice& p, Index count) {
  return p.pad || count > p.capacity ? p.capacity : count;
}

// One block: of each chunk and expert how many slots come before; where the experts' slots and rows begin.
__global__ void __launch_bounds__(scan_threads) scan_kernel(DispatchOnDevice p, Index chunks) {
  for (Index e = threadIdx.x; e < p.experts; e += scan_threads) {
    std::int32_t sum = 0;
    for (Index i = 0; i < chunks; ++i) {
      std::int32_t& here = p.before[i * p.experts + e];
      const std::int32_t count = here;
      here = sum, sum += count;
    }
    p.first[e] = sum;
  }
  sync_block();
  if (threadIdx.x != 0) return;
  std::int32_t slots = 0;
  Index rows = 0;
  for (Index e = 0; e < p.experts; ++e) {
    const std::int32_t count = p.first[e];
    p.first[e] = slots, p.offsets[e] = rows;
    slots += count, rows += kept_of(p, count);
  }
  p.first[p.experts] = slots, p.offsets[p.experts] = rows;
}

__device__ inline void take_row(const DispatchOnDevice& p, Index slot, Index row) {
  p.row_slot[row] = static_cast<std::int32_t>(slot);
  p.row_token[row] = static_cast<std::int32_t>(slot / p.top_k);
  p.slot_row[slot] = static_cast<std::int32_t>(row);
}

// Where the first of an expert's slots stay, each finds its row; otherwise the slots are sorted first.
__global__ void __launch_bounds__(chunk) scatter_kernel(DispatchOnDevice p) {
  const std::int32_t* const ids = take_ids(p);
  const Index slot = static_cast<Index>(blockIdx.x) * chunk + threadIdx.x;
  if (slot >= p.slots) return;
  const std::int32_t e = ids[threadIdx.x];
  Index rank = p.before[static_cast<Index>(blockIdx.x) * p.experts + e];
  for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) rank += ids[i] == e ? 1 : 0;
  if (p.by_weight)
    p.order[p.first[e] + rank] = static_cast<std::int32_t>(slot);
  else if (rank < p.capacity)
    take_row(p, slot, p.offsets[e] + rank);
  else
    p.slot_row[slot] = -1;
}

// NaN first, so that it shows.
__device__ inline float key_of(float weight) {
  return weight != weight ? INFINITY : weight;
}

// Which slots of an expert are among the `capacity` largest: each counts those before it.
__global__ void __launch_bounds__(chunk) keep_kernel(DispatchOnDevice p) {
  const Index place = static_cast<Index>(blockIdx.x) * chunk + threadIdx.x;
  if (place >= p.slots) return;
  const std::int32_t slot = p.order[place], e = p.ids[slot];
  const float key = key_of(p.weights[slot]);
  Index before = 0;
  for (Index i = p.first[e]; i < p.first[e + 1]; ++i) {
    const float other = key_of(p.weights[p.order[i]]);
    before += other > key || (other == key && i < place) ? 1 : 0;
  }
  p.kept[place] = before < p.capacity ? 1 : 0;
}
__global__ void __launch_bounds__(chunk) pack_kernel(DispatchOnDevice p) {
  const Index place = static_cast<Index>(blockIdx.x) * chunk + threadIdx.x;
  if (place >= p.slots) return;
  const std::int32_t slot = p.order[place], e = p.ids[slot];
  if (p.kept[place] == 0) {
    p.slot_row[slot] = -1;
    return;
  }
  Index rank = 0;
  for (Index i = p.first[e]; i < place; ++i) rank += p.kept[i];
  take_row(p, slot, p.offsets[e] + rank);
}

__global__ void __launch_bounds__(chunk) no_rows_kernel(DispatchOnDevice p) {
  const Index row = static_cast<Index>(blockIdx.x) * chunk + threadIdx.x;
  if (row < p.rows) p.row_slot[row] = p.row_token[row] = -1;
}

__global__ void __launch_bounds__(scan_threads) count_ids_kernel(Index n, const std::int32_t* ids, float* counts) {
  int count = 0;
  for (Index i = threadIdx.x; i < n; i += scan_threads) count += ids[i] == static_cast<int>(blockIdx.x) ? 1 : 0;
  count = sum_over_block(count, reinterpret_cast<int*>(shared_memory()));
  if (threadIdx.x == 0) counts[blockIdx.x] = static_cast<float>(count);
}

// Units of 16 bytes, or smaller ones where rows do not begin at multiples of them.
template <class Unit>
__global__ void __launch_bounds__(row_threads)
    gather_kernel(Index width, const Unit* x, const std::int32_t* index, Unit* out) {
  const Index row = blockIdx.x, from = index[row];
  for (Index i = threadIdx.x; i < width; i += row_threads)
    out[row * width + i] = from < 0 ? Unit{} : x[from * width + i];
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads) combine_kernel(Combine<T> p) {
  const Index token = blockIdx.x;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.hidden; i += row_threads * n) {
    T* const to = p.out + token * p.hidden + i;
    float sum[n] = {};
    if (p.accumulate) load<n>(to, sum);
    for (Index slot = token * p.top_k; slot < (token + 1) * p.top_k; ++slot) {
      const Index row = p.slot_row[slot];
      if (row < 0) continue;
      const float weight = p.weights == nullptr ? 1.0F : p.weights[slot];
      float x[n];
      load<n>(p.rows + row * p.hidden + i, x);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) sum[j] += weight * x[j];
    }
    store<n>(sum, to);
  }
}

// A block for each row. Each thread reads what it writes itself.
template <class T, int n>
__global__ void __launch_bounds__(row_threads) combine_backward_kernel(CombineBackward<T> p) {
  const Index row = blockIdx.x, slot = p.row_slot[row];
  const float weight = slot < 0 ? 0.0F : p.weights[slot];
  const T* const from = p.dout + (slot < 0 ? 0 : slot / p.top_k) * p.hidden;
  float dot = 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.hidden; i += row_threads * n) {
    float dy[n] = {}, x[n];
    if (slot >= 0) {
      load<n>(from + i, dy);
      load<n>(p.x + row * p.hidden + i, x);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) dot += dy[j] * x[j], dy[j] *= weight;
    }
    store<n>(dy, p.drows + row * p.hidden + i);
  }
  dot = sum_over_block(dot, reinterpret_cast<float*>(shared_memory()));
  if (threadIdx.x == 0 && slot >= 0) p.dweights[slot] = dot;
}
__global__ void __launch_bounds__(row_threads)
    dropped_kernel(Index slots, const std::int32_t* slot_row, float* dweights) {
  const Index slot = static_cast<Index>(blockIdx.x) * row_threads + threadIdx.x;
  if (slot < slots && slot_row[slot] < 0) dweights[slot] = 0.0F;
}

template <class Unit>
void gather(cudaStream_t stream, Index rows, Index bytes, const void* x, const std::int32_t* index, void* out) {
  launch("gather_rows", stream, gather_kernel<Unit>, dim3(static_cast<unsigned>(rows)), dim3(row_threads), 0,
         bytes / static_cast<Index>(sizeof(Unit)), static_cast<const Unit*>(x), index, static_cast<Unit*>(out));
}

}  // namespace

Index dispatch_chunks(Index slots) {
  return (slots + chunk - 1) / chunk;
}

void moe_dispatch(cudaStream_t stream, const DispatchOnDevice& p) {
  const Index chunks = dispatch_chunks(p.slots);
  const dim3 all(static_cast<unsigned>(chunks));
  const std::size_t bytes = chunk * sizeof(std::int32_t);
  launch("moe_dispatch_count", stream, count_kernel, all, dim3(chunk), bytes, p);
  launch("moe_dispatch_scan", stream, scan_kernel, dim3(1), dim3(scan_threads), 0, p, chunks);
  launch("moe_dispatch_no_rows", stream, no_rows_kernel, dim3(blocks_for(p.rows, chunk)), dim3(chunk), 0, p);
  launch("moe_dispatch_scatter", stream, scatter_kernel, all, dim3(chunk), bytes, p);
  if (!p.by_weight) return;
  launch("moe_dispatch_keep", stream, keep_kernel, all, dim3(chunk), 0, p);
  launch("moe_dispatch_pack", stream, pack_kernel, all, dim3(chunk), 0, p);
}

void moe_count(cudaStream_t stream, Index n, Index experts, const std::int32_t* ids, float* counts) {
  launch("moe_count", stream, count_ids_kernel, dim3(static_cast<unsigned>(experts)), dim3(scan_threads),
         scan_threads / warp_size * sizeof(int), n, ids, counts);
}

void gather_rows(cudaStream_t stream, Index rows, Index bytes, const void* x, const std::int32_t* index, void* out) {
  const std::uintptr_t all =
      reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(out) | static_cast<std::uintptr_t>(bytes);
  if (all % 16 == 0) return gather<uint4>(stream, rows, bytes, x, index, out);
  if (all % 4 == 0) return gather<std::uint32_t>(stream, rows, bytes, x, index, out);
  if (all % 2 == 0) return gather<std::uint16_t>(stream, rows, bytes, x, index, out);
  gather<std::uint8_t>(stream, rows, bytes, x, index, out);
}

template <class T>
void moe_combine(cudaStream_t stream, const Combine<T>& p) {
  with_width<T>(p.hidden, {p.rows, p.out}, [&](auto width) {
    launch("moe_combine", stream, combine_kernel<T, decltype(width)::value>, dim3(static_cast<unsigned>(p.tokens)),
           dim3(row_threads), 0, p);
  });
}

template <class T>
void moe_combine_backward(cudaStream_t stream, const CombineBackward<T>& p) {
  with_width<T>(p.hidden, {p.dout, p.x, p.drows}, [&](auto width) {
    launch("moe_combine_backward", stream, combine_backward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(p.rows)), dim3(row_threads), row_threads / warp_size * sizeof(float), p);
  });
  launch("moe_dropped", stream, dropped_kernel, dim3(blocks_for(p.slots, row_threads)), dim3(row_threads), 0, p.slots,
         p.slot_row, p.dweights);
}

template void moe_combine(cudaStream_t, const Combine<float>&);
template void moe_combine(cudaStream_t, const Combine<bf16>&);
template void moe_combine_backward(cudaStream_t, const CombineBackward<float>&);
template void moe_combine_backward(cudaStream_t, const CombineBackward<bf16>&);

}  // namespace longhaul::cuda
