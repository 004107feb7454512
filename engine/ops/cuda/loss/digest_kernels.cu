#include "engine/core/tensor/word_digest.h"
#include "engine/ops/cuda/common/device_code.h"
#include "engine/ops/cuda/loss/digest_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int digest_threads = 256;
constexpr Index block_words = 16384;  // of a part, by one block: 128 KiB

Index blocks_of(Index n, Index parts) {
  const Index largest = (n + parts - 1) / parts, words = (largest + 1) / 2;
  return (words + block_words - 1) / block_words;
}

__device__ inline std::uint64_t word_of(float low, float high) {
  return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(high)) << 32 | std::bit_cast<std::uint32_t>(low);
}

// Blocks of one part follow each other. Threads read two words at once, in one access where the part begins at a
// multiple of 16 bytes: sums modulo 2^64 have no order.
__global__ void __launch_bounds__(digest_threads)
    digest_kernel(Index n, const float* x, Index parts, Index blocks, std::uint64_t* partial) {
  auto* const shared = reinterpret_cast<std::uint64_t*>(shared_memory());
  const Index part = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const Index begin = n * part / parts, count = n * (part + 1) / parts - begin;
  const float* const from = x + begin;
  const Index last = 2 * block_words * (block + 1) < count ? 2 * block_words * (block + 1) : count;
  const bool wide = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  std::uint64_t sum = 0;
  for (Index i = 2 * block_words * block + 4 * static_cast<Index>(threadIdx.x); i < last; i += 4 * digest_threads) {
    const auto place = static_cast<std::uint64_t>(i / 2);
    Pack<float, 4> v{};
    if (wide && i + 4 <= last)
      v = *reinterpret_cast<const Pack<float, 4>*>(from + i);
    else
      for (int j = 0; j < 4 && i + j < last; ++j) v.value[j] = from[i + j];
    sum += word_term(word_of(v.value[0], v.value[1]), place);
    if (i + 2 < last) sum += word_term(word_of(v.value[2], v.value[3]), place + 1);
  }
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// A block for each part.
__global__ void __launch_bounds__(digest_threads)
    add_digests_kernel(Index n, Index parts, Index blocks, const std::uint64_t* partial, std::uint64_t* out) {
  auto* const shared = reinterpret_cast<std::uint64_t*>(shared_memory());
  const Index part = blockIdx.x, count = n * (part + 1) / parts - n * part / parts;
  std::uint64_t sum = 0;
  for (Index i = threadIdx.x; i < blocks; i += digest_threads) sum += partial[part * blocks + i];
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) out[part] = sum + length_term(static_cast<std::uint64_t>(count) * sizeof(float));
}

}  // namespace

Index digest_partials(Index n, Index parts) {
  return parts == 0 ? 0 : parts * blocks_of(n, parts);
}

void digest_parts(cudaStream_t stream, Index n, const float* x, Index parts, std::uint64_t* partial,
                  std::uint64_t* out) {
  if (parts == 0) return;
  const Index blocks = blocks_of(n, parts);
  constexpr std::size_t shared = digest_threads / warp_size * sizeof(std::uint64_t);
  launch("digest", stream, digest_kernel, dim3(static_cast<unsigned>(parts * blocks)), dim3(digest_threads), shared, n,
         x, parts, blocks, partial);
  launch("add_digests", stream, add_digests_kernel, dim3(static_cast<unsigned>(parts)), dim3(digest_threads), shared, n,
         parts, blocks, static_cast<const std::uint64_t*>(partial), out);
}

}  // namespace longhaul::cuda
