#include "base/error/result.h"
#include "engine/ops/cuda/common/cuda_api.h"
#include "engine/ops/cuda/common/tree_rows.h"

namespace longhaul::cuda {
namespace {

constexpr int threads = 256;
constexpr Index elements_per_thread = 4;
constexpr int levels_max = 20;  // a million rows

struct Plus {
  static __device__ float apply(float a, float b) { return a + b; }
};
struct Max {
  static __device__ float apply(float a, float b) { return a > b ? a : b; }
};

// Blocks of 1, 2, 4, ... rows, as TreeAccumulator keeps them: one partial result for each bit of the number of rows so
// far, the earlier rows on the left; at last from the smallest block up.
template <class Op>
__device__ float along_tree(Index rows, Index n, const float* term) {
  float level[levels_max];
  for (Index r = 0; r < rows; ++r) {
    float carry = term[r * n];
    int bit = 0;
    for (; (r >> bit & 1) != 0; ++bit) carry = Op::apply(level[bit], carry);
    level[bit] = carry;
  }
  int bit = 0;
  while ((rows >> bit & 1) == 0) ++bit;
  float total = level[bit];
  for (++bit; rows >> bit != 0; ++bit)
    if ((rows >> bit & 1) != 0) total = Op::apply(level[bit], total);
  return total;
}

template <class Op>
__global__ void __launch_bounds__(threads) tree_rows_kernel(Index rows, Index n, const float* terms, float* out) {
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    out[i] = along_tree<Op>(rows, n, terms + i);
}

__global__ void write_word_kernel(std::uint64_t* word, std::uint64_t value) {
#ifdef LONGHAUL_CUDA_EMULATED
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#else
  *static_cast<volatile std::uint64_t*>(word) = value;
  __threadfence_system();
#endif
}

}  // namespace

void tree_rows(cudaStream_t stream, bool largest, Index rows, Index n, const float* terms, float* out) {
  LH_ASSERT(rows >= 1 && rows < Index{1} << levels_max, "a sum of no rows, or of more than a million");
  const Index wanted = (n + threads * elements_per_thread - 1) / (threads * elements_per_thread);
  const dim3 blocks(static_cast<unsigned>(wanted));
  const auto run = [&](const char* name, void (*kernel)(Index, Index, const float*, float*)) {
    launch(name, stream, kernel, blocks, dim3(threads), 0, rows, n, terms, out);
  };
  largest ? run("tree_max", tree_rows_kernel<Max>) : run("tree_sum", tree_rows_kernel<Plus>);
}

void write_word(cudaStream_t stream, std::uint64_t* word, std::uint64_t value) {
  launch("write_word", stream, write_word_kernel, dim3(1), dim3(1), 0, word, value);
}

}  // namespace longhaul::cuda
