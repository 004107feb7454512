#include <algorithm>

#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/coded_block_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int decode_threads = 256;

// Given with the launch; threads look values up in shared memory, which gives each another one at once.
template <int bits>
struct CodeValues {
  float value[1 << bits];
};

// n codes from element i on, a multiple of n.
template <int bits, int n>
__device__ inline void codes_from(const std::uint8_t* codes, Index i, unsigned (&to)[n]) {
  if constexpr (n == 1) {
    const unsigned byte = codes[i * bits / 8];
    to[0] = bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15U;
  } else {
    constexpr int bytes = n * bits / 8;
    const Pack<std::uint8_t, bytes> pack = *reinterpret_cast<const Pack<std::uint8_t, bytes>*>(codes + i * bits / 8);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const unsigned byte = pack.value[j * bits / 8];
      to[j] = bits == 8 ? byte : j % 2 == 0 ? byte >> 4 : byte & 15U;
    }
  }
}

template <class T, int bits, int n>
__global__ void __launch_bounds__(decode_threads) decode_kernel(DecodeBlocks<T> p, CodeValues<bits> values) {
  auto* const table = reinterpret_cast<float*>(shared_memory());
  for (int code = static_cast<int>(threadIdx.x); code < 1 << bits; code += decode_threads)
    table[code] = values.value[code];
  sync_block();
  const Index i = (static_cast<Index>(blockIdx.x) * decode_threads + threadIdx.x) * n;
  if (i >= p.elements) return;
  const float scale = p.scales[i / p.block];  // one for all n, which divides a block
  unsigned codes[n];
  codes_from<bits, n>(p.codes, i, codes);
  float out[n];
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) out[j] = table[codes[j]] * scale;
  store<n>(out, p.out + i);
}

template <class T, int bits>
void start(cudaStream_t stream, const DecodeBlocks<T>& p, const float* values) {
  CodeValues<bits> table;
  std::copy_n(values, 1 << bits, table.value);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(p.codes) % 8 == 0;  // a pack has at most 8 bytes of codes
  const auto with = [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("decode_blocks", stream, decode_kernel<T, bits, n>, dim3(blocks_for(p.elements, decode_threads * n)),
           dim3(decode_threads), sizeof(table), p, table);
  };
  if (is_aligned)
    with_width<T>(p.elements, {p.out}, with);
  else
    with(Width<1>{});
}

}  // namespace

template <class T>
void decode_blocks(cudaStream_t stream, const DecodeBlocks<T>& p, const float* values) {
  p.bits == 8 ? start<T, 8>(stream, p, values) : start<T, 4>(stream, p, values);
}

template void decode_blocks(cudaStream_t, const DecodeBlocks<float>&, const float*);
template void decode_blocks(cudaStream_t, const DecodeBlocks<bf16>&, const float*);

}  // namespace longhaul::cuda
