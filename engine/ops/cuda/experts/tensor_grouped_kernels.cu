#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/experts/grouped_tiles.h"
#include "engine/ops/cuda/experts/tensor_grouped_kernels.h"

namespace longhaul::cuda {
namespace {

// A block of eight warps makes [tensor_tile, tensor_tile] of a result, each warp [64, 32] of it, and sums over steps of
// `tensor_depth`; while it works on one, the next is on its way into the other half of its shared memory.
constexpr int tensor_tile = 128, tensor_depth = 32, pack = 8;
constexpr int warp_rows = 64, warp_columns = 32,
              tensor_threads = tensor_tile / warp_rows * (tensor_tile / warp_columns) * warp_size;
constexpr int row_blocks = warp_rows / 16, column_blocks = warp_columns / 8;

// A factor of a product: `count` rows (or columns) of it, which lie `stride` apart where by_rows, or beside each other.
// In shared memory rows lie 16 bytes further apart than they are long: eight of them then lie in different banks.
template <bool by_rows>
struct Factor {
  static constexpr int length = (by_rows ? tensor_depth : tensor_tile) + pack;
  static constexpr int elements = (by_rows ? tensor_tile : tensor_depth) * length;
  const bf16* x;
  Index stride, count;

  // Of step d .. d + tensor_depth, zeros where there is nothing. There after wait_for_copies() and a barrier.
  __device__ void ask_for(Index d, Index all, bf16* to) const {
    constexpr int packs = (by_rows ? tensor_depth : tensor_tile) / pack;
    for (int i = static_cast<int>(threadIdx.x); i < tensor_tile * tensor_depth / pack; i += tensor_threads) {
      const int row = i / packs, column = i % packs * pack;
      const Index of_count = by_rows ? row : column, of_depth = d + (by_rows ? column : row);
      bf16* const here = to + row * length + column;
      if (of_count < count && of_depth < all)
        copy_later(here, x + (by_rows ? of_count * stride + of_depth : of_depth * stride + of_count));
      else
        *reinterpret_cast<uint4*>(here) = uint4{0, 0, 0, 0};
    }
  }
};

// 16 rows by 16 of the depth, as the left factor.
template <bool by_rows>
__device__ inline void left_factor(std::uint32_t (&a)[4], const bf16* of, int row, int d) {
  constexpr int length = Factor<by_rows>::length;
  const int lane = lane_here();
  if constexpr (by_rows)
    load_matrices(a, of + (row + lane % 16) * length + d + lane / 16 * 8);
  else
    load_matrices_transposed(a, of + (d + lane / 16 * 8 + lane % 8) * length + row + lane / 8 % 2 * 8);
}
// 16 columns by 16 of the depth, as two right factors.
template <bool by_rows>
__device__ inline void right_factors(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const bf16* of, int column,
                                     int d) {
  constexpr int length = Factor<by_rows>::length;
  const int lane = lane_here();
  std::uint32_t all[4];
  if constexpr (by_rows)
    load_matrices(all, of + (column + lane / 16 * 8 + lane % 8) * length + d + lane / 8 % 2 * 8);
  else
    load_matrices_transposed(all, of + (d + lane % 16) * length + column + lane / 16 * 8);
  first[0] = all[0], first[1] = all[1], second[0] = all[2], second[1] = all[3];
}

struct TensorSums {
  float of[row_blocks][column_blocks][4] = {};
};
__device__ inline int first_row() {
  return static_cast<int>(threadIdx.x) / warp_size / (tensor_tile / warp_columns) * warp_rows;
}
__device__ inline int first_column() {
  return static_cast<int>(threadIdx.x) / warp_size % (tensor_tile / warp_columns) * warp_columns;
}

template <bool a_by_rows, bool b_by_rows>
__device__ inline void add_step(TensorSums& sums, const bf16* a, const bf16* b) {
  LONGHAUL_UNROLL
  for (int d = 0; d < tensor_depth; d += 16) {
    std::uint32_t left[row_blocks][4], right[column_blocks][2];
    LONGHAUL_UNROLL
    for (int i = 0; i < row_blocks; ++i) left_factor<a_by_rows>(left[i], a, first_row() + i * 16, d);
    LONGHAUL_UNROLL
    for (int j = 0; j < column_blocks; j += 2)
      right_factors<b_by_rows>(right[j], right[j + 1], b, first_column() + j * 8, d);
    LONGHAUL_UNROLL
    for (int i = 0; i < row_blocks; ++i) {
      LONGHAUL_UNROLL
      for (int j = 0; j < column_blocks; ++j) multiply_add(sums.of[i][j], left[i], right[j]);
    }
  }
}

template <bool a_by_rows, bool b_by_rows>
constexpr std::size_t stage_elements = Factor<a_by_rows>::elements + Factor<b_by_rows>::elements;

// sums += a b over `all` of the tensor_depth.
template <bool a_by_rows, bool b_by_rows>
__device__ inline void multiply(TensorSums& sums, const Factor<a_by_rows>& a, const Factor<b_by_rows>& b, Index all) {
  auto* const memory = reinterpret_cast<bf16*>(shared_memory());
  const auto ask_for = [&](Index d) {
    bf16* const to = memory + d / tensor_depth % 2 * stage_elements<a_by_rows, b_by_rows>;
    a.ask_for(d, all, to), b.ask_for(d, all, to + Factor<a_by_rows>::elements);
  };
  const bool works = first_row() < a.count && first_column() < b.count;  // this warp, in a tile that is not full
  if (all > 0) ask_for(0);
  for (Index d = 0; d < all; d += tensor_depth) {
    wait_for_copies();
    sync_block();  // this step is there, and nobody works on the one before
    if (d + tensor_depth < all) ask_for(d + tensor_depth);
    const bf16* const here = memory + d / tensor_depth % 2 * stage_elements<a_by_rows, b_by_rows>;
    if (works) add_step<a_by_rows, b_by_rows>(sums, here, here + Factor<a_by_rows>::elements);
  }
}

__device__ inline void write_two(bf16* to, float a, float b, bool) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(a, b);
}
__device__ inline void write_two(float* to, float a, float b, bool accumulate) {
  auto& pair = *reinterpret_cast<Pack<float, 2>*>(to);
  pair = accumulate ? Pack<float, 2>{{pair.value[0] + a, pair.value[1] + b}} : Pack<float, 2>{{a, b}};
}
// to[row * stride + column] of `rows` by `columns`.
template <class Out>
__device__ inline void write(const TensorSums& sums, Out* to, Index stride, Index rows, Index columns,
                             bool accumulate) {
  LONGHAUL_UNROLL
  for (int i = 0; i < row_blocks; ++i) {
    LONGHAUL_UNROLL
    for (int j = 0; j < column_blocks; ++j) {
      LONGHAUL_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = first_row() + i * 16 + lane_here() / 4 + half * 8;
        const int column = first_column() + j * 8 + lane_here() % 4 * 2;
        if (row < rows && column < columns)
          write_two(to + row * stride + column, sums.of[i][j][2 * half], sums.of[i][j][2 * half + 1], accumulate);
      }
    }
  }
}

// Blocks of the same columns of weights follow each other: those of one expert stay in the cache meanwhile.
template <class Out, bool transposed>
__global__ void __launch_bounds__(tensor_threads) product_kernel(GroupedProduct<bf16, Out> p) {
  const RowTile rows = find_row_tile(p.offsets, p.experts, tensor_tile, blockIdx.x);
  if (rows.expert < 0) return;
  const Index column = static_cast<Index>(blockIdx.y) * tensor_tile, count = rows.end - rows.begin;
  const bf16* const weights = p.weights + rows.expert * p.n * p.k;
  const Factor<true> a{p.x + rows.begin * p.k, p.k, count};
  const Factor<transposed> b{weights + column * (transposed ? p.k : 1), transposed ? p.k : p.n, p.n - column};
  TensorSums sums;
  multiply(sums, a, b, p.k);
  write(sums, p.out + rows.begin * p.n + column, p.n, count, p.n - column, false);
}

__global__ void __launch_bounds__(tensor_threads) tensor_weight_gradient_kernel(GroupedWeightGradient<bf16> p) {
  const Index column = static_cast<Index>(blockIdx.x) * tensor_tile, row = static_cast<Index>(blockIdx.y) * tensor_tile,
              expert = blockIdx.z, begin = p.offsets[expert], end = p.offsets[expert + 1];
  const Factor<false> a{p.dy + begin * p.out + row, p.out, p.out - row};
  const Factor<false> b{p.x + begin * p.in + column, p.in, p.in - column};
  TensorSums sums;
  multiply(sums, a, b, end - begin);
  write(sums, p.dweights + (expert * p.out + row) * p.in + column, p.in, p.out - row, p.in - column, p.accumulate);
}

template <bool a_by_rows, bool b_by_rows>
constexpr std::size_t tensor_shared_bytes = 2 * stage_elements<a_by_rows, b_by_rows> * sizeof(bf16);

bool aligned(std::initializer_list<const void*> starts) {
  return rows_are_aligned<bf16>(pack, starts);
}

}  // namespace

template <class Out>
bool tensor_grouped_knows(const GroupedProduct<bf16, Out>& p) {
  return p.n % pack == 0 && p.k % pack == 0 && aligned({p.x, p.weights, p.out});
}
bool tensor_grouped_knows(const GroupedWeightGradient<bf16>& p) {
  return p.in % pack == 0 && p.out % pack == 0 && aligned({p.dy, p.x, p.dweights});
}

template <class Out>
void tensor_grouped_product(cudaStream_t stream, bool transposed, const GroupedProduct<bf16, Out>& p) {
  const dim3 grid(static_cast<unsigned>(row_tiles_max(p.rows, p.experts, tensor_tile)), blocks_for(p.n, tensor_tile));
  if (transposed)
    launch("tensor_grouped_product", stream, product_kernel<Out, true>, grid, dim3(tensor_threads),
           tensor_shared_bytes<true, true>, p);
  else
    launch("tensor_grouped_product", stream, product_kernel<Out, false>, grid, dim3(tensor_threads),
           tensor_shared_bytes<true, false>, p);
}

void tensor_grouped_weight_gradient(cudaStream_t stream, const GroupedWeightGradient<bf16>& p) {
  launch("tensor_grouped_weight_gradient", stream, tensor_weight_gradient_kernel,
         dim3(blocks_for(p.in, tensor_tile), blocks_for(p.out, tensor_tile), static_cast<unsigned>(p.experts)),
         dim3(tensor_threads), tensor_shared_bytes<false, false>, p);
}

template bool tensor_grouped_knows(const GroupedProduct<bf16, bf16>&);
template bool tensor_grouped_knows(const GroupedProduct<bf16, float>&);
template void tensor_grouped_product(cudaStream_t, bool, const GroupedProduct<bf16, bf16>&);
template void tensor_grouped_product(cudaStream_t, bool, const GroupedProduct<bf16, float>&);

}  // namespace longhaul::cuda
