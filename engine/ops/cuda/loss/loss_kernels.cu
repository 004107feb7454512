#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/loss/loss_kernels.h"

namespace longhaul::cuda {
namespace {

struct TopAndTotal {
  float top, total;  // max z, sum exp(z - top)
};

// What stands behind the row's last column, where that is in the middle of a pack, counts for nothing.
template <int n>
__device__ inline void leave_out_beyond(Index i, Index columns, float (&v)[n]) {
  if (i + n <= columns) return;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j)
    if (i + j >= columns) v[j] = -INFINITY;
}

// One pass over the row: each thread keeps the largest it has seen and the sum relative to that (Milakov & Gimelshein
// 2018, algorithm 3); then those of all threads are brought to one.
template <class T, int n>
__device__ TopAndTotal top_and_total(const T* row, Index columns, float inverse_temperature, float* parts) {
  float top = -INFINITY, total = 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < columns; i += row_threads_max * n) {
    float v[n];
    load<n>(row + i, v);
    leave_out_beyond(i, columns, v);
    float here = top;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] *= inverse_temperature, here = larger(here, v[j]);
    total = here == -INFINITY ? 0.0F : total * __expf(top - here);
    if (here == -INFINITY) continue;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) total += __expf(v[j] - here);
    top = here;
  }
  const float of_row = max_over_block(top, parts);
  const float scaled = top == -INFINITY ? 0.0F : total * __expf(top - of_row);
  return {of_row, sum_over_block(scaled, parts)};
}

// Rows of whole packs. All of a row is asked for at once and stays in shared memory, where the largest, the sum and the
// gradient find it; what of a row does not fit there (from pack `kept` on) is read again. A thread reads and writes
// packs of its own alone, so dlogits may be the logits. Exponentials are 2^(z log2(e) - top log2(e)): the rounding of
// the second term is the same in all of them, and goes out of the quotient.
template <class T, int threads>
__global__ void __launch_bounds__(threads) cross_entropy_rows_kernel(CrossEntropy<T> p, int kept) {
  constexpr int n = pack_of<T>;
  constexpr float log2_e = 1.44269504F;
  auto* const row = reinterpret_cast<Words*>(shared_memory());
  auto* const parts = reinterpret_cast<float*>(row + kept);
  const Index token = blockIdx.x;
  const T* const z = p.logits + token * p.stride;
  const int vocab = static_cast<int>(p.vocab), packs = (vocab + n - 1) / n, thread = static_cast<int>(threadIdx.x);
  const int target = p.targets[token];
  const bool counts = target >= 0;  // the same for all threads of the block
  float top = -INFINITY, total = 0.0F;
  const auto read = [&](int i, float(&v)[n]) {
    unpack<T>(i < kept ? row[i] : read_words(z + static_cast<Index>(i) * n), v);
    if ((i + 1) * n > vocab) leave_out_beyond(static_cast<Index>(i) * n, p.vocab, v);
  };
  if (counts) {
    for (int i = thread; i < kept; i += threads) copy_later(row + i, z + static_cast<Index>(i) * n);
    const float of_target = thread == 0 ? to_float(z[target]) : 0.0F;
    wait_for_copies();
    for (int i = thread; i < packs; i += threads) {
      float v[n];
      read(i, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) top = fmaxf(top, v[j]);  // NaN shows in the sum
    }
    top = max_over_block(top, parts);
    const float shift = top * log2_e;
    for (int i = thread; i < packs; i += threads) {
      float v[n];
      read(i, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) total += exp2_fast(v[j] * log2_e - shift);
    }
    total = sum_over_block(total, parts);
    if (thread == 0) p.loss[token] = top + logf(total) - of_target;
  } else if (thread == 0) {
    p.loss[token] = 0.0F;
  }
  if (p.weights == nullptr) return;
  const float weight = p.weights[token], scale = counts ? weight / total : 0.0F, shift = top * log2_e;
  const int pack_of_target = counts ? target / n : -1;
  T* const dz = p.dlogits + token * p.stride;
  for (int i = thread; i < packs; i += threads) {
    float v[n] = {};
    if (scale != 0.0F) {  // NaN too
      read(i, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) v[j] = exp2_fast(v[j] * log2_e - shift) * scale;
      if (i == pack_of_target) {
        LONGHAUL_UNROLL
        for (int j = 0; j < n; ++j)
          if (i * n + j == target) v[j] -= weight;
      }
    }
    write_words(packed<T>(v), dz + static_cast<Index>(i) * n);
  }
}

// Rows that begin anywhere.
template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) cross_entropy_any_kernel(CrossEntropy<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index token = blockIdx.x;
  const T* const z = p.logits + token * p.stride;
  const std::int32_t target = p.targets[token];
  const float weight = p.weights == nullptr ? 0.0F : p.weights[token];
  T* const dz = p.weights == nullptr ? nullptr : p.dlogits + token * p.stride;
  const bool counts = target >= 0;
  float top = 0.0F, total = 1.0F;
  if (counts) {  // the same for all threads of the block
    const TopAndTotal both = top_and_total<T, n>(z, p.vocab, 1.0F, parts);
    top = both.top, total = both.total;
    if (threadIdx.x == 0) p.loss[token] = top + logf(total) - to_float(z[target]);
  } else if (threadIdx.x == 0) {
    p.loss[token] = 0.0F;
  }
  if (dz == nullptr) return;
  sync_block();  // z[target] is read before the row may be written over
  const float scale = counts ? weight / total : 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.vocab; i += row_threads_max * n) {
    float v[n];
    load<n>(z + i, v);
    leave_out_beyond(i, p.vocab, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      v[j] = scale == 0.0F ? 0.0F : __expf(v[j] - top) * scale;
      if (i + j == target) v[j] -= weight;
    }
    store<n>(v, dz + i);
  }
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max)
    softmax_kernel(Index columns, const T* logits, float inverse_temperature, float* probabilities) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const T* const z = logits + blockIdx.x * columns;
  const TopAndTotal both = top_and_total<T, n>(z, columns, inverse_temperature, parts);
  for (Index i = threadIdx.x; i < columns; i += row_threads_max)
    probabilities[blockIdx.x * columns + i] = __expf(to_float(z[i]) * inverse_temperature - both.top) / both.total;
}

// Rows of up to half of what an H100 has leave room for another block beside; a block of an A100 may have 163 KB.
constexpr Index row_bytes_of_two = 110 * 1024, row_bytes_max = 160 * 1024;

template <class T, int threads>
void start_rows(cudaStream_t stream, const CrossEntropy<T>& p) {
  constexpr Index n = pack_of<T>, pack_bytes = static_cast<Index>(sizeof(Words));
  const Index kept = std::min((p.vocab + n - 1) / n, row_bytes_max / pack_bytes);
  launch("cross_entropy", stream, cross_entropy_rows_kernel<T, threads>, dim3(static_cast<unsigned>(p.tokens)),
         dim3(threads), static_cast<std::size_t>(kept * pack_bytes) + threads / warp_size * sizeof(float), p,
         static_cast<int>(kept));
}

}  // namespace

template <class T>
void cross_entropy(cudaStream_t stream, const CrossEntropy<T>& p) {
  constexpr Index pack = pack_of<T>, size = static_cast<Index>(sizeof(T));
  const bool wide =
      rows_are_aligned<T>(p.stride, {p.logits, p.dlogits}) && p.stride >= (p.vocab + pack - 1) / pack * pack;
  if (!wide)
    launch("cross_entropy", stream, cross_entropy_any_kernel<T, 1>, dim3(static_cast<unsigned>(p.tokens)),
           dim3(row_threads_max), reduce_bytes, p);
  else if (p.vocab * size <= row_bytes_of_two)
    start_rows<T, row_threads_max>(stream, p);
  else
    start_rows<T, 2 * row_threads_max>(stream, p);
}

template <class T>
void softmax_rows(cudaStream_t stream, Index rows, Index columns, const T* logits, float inverse_temperature,
                  float* probabilities) {
  with_width<T>(columns, {logits}, [&](auto width) {
    launch("softmax", stream, softmax_kernel<T, decltype(width)::value>, dim3(static_cast<unsigned>(rows)),
           dim3(row_threads_max), reduce_bytes, columns, logits, inverse_temperature, probabilities);
  });
}

template void cross_entropy(cudaStream_t, const CrossEntropy<float>&);
template void cross_entropy(cudaStream_t, const CrossEntropy<bf16>&);
template void softmax_rows(cudaStream_t, Index, Index, const float*, float, float*);
template void softmax_rows(cudaStream_t, Index, Index, const bf16*, float, float*);

}  // namespace longhaul::cuda
