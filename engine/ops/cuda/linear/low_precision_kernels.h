// Fake quantisation on the device, as engine/ops/linear/quantize_blocks.h has it: the same bits as the processor's.
// Sums over what was done to the elements are taken in a fixed order.
#pragma once

#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/linear/quantize_blocks.h"

namespace longhaul::cuda {

// Five sums, as QuantizationSums has them. A launch writes those of each of its blocks.
inline constexpr int quantization_sums = 5;

// x, y [rows, columns]; y may be x. parts: quantize_blocks_parts() times five, or null: no sums.
template <class T>
struct QuantizeBlocks {
  Index rows, columns;
  BlockQuantization how;
  const T* x;
  T* y;
  double* parts;
};
template <class T>
Index quantize_blocks_parts(const QuantizeBlocks<T>& arguments);
template <class T>
void quantize_blocks(cudaStream_t stream, const QuantizeBlocks<T>& arguments);

// One scale. parts: quantize_flat_parts(n) times five, or null.
Index quantize_flat_parts(Index n);
template <class T>
void quantize_flat(cudaStream_t stream, NumberFormat format, float scale, Index n, const T* x, T* y, double* parts);

// out[five] = the parts of so many blocks, in their order.
void add_quantization_parts(cudaStream_t stream, Index count, const double* parts, double* out);

// out[0] = the largest |x|, as bits (NaN's are larger than any number's). parts: quantize_flat_parts(n).
template <class T>
void largest_magnitude(cudaStream_t stream, Index n, const T* x, std::uint32_t* parts, std::uint32_t* out);
// The same, or what out[0] was if that is larger.
template <class T>
void keep_largest_magnitude(cudaStream_t stream, Index n, const T* x, std::uint32_t* parts, std::uint32_t* out);

}  // namespace longhaul::cuda
