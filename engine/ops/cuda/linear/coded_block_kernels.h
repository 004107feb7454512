// Codes that stand for a few values, times a scale for each block (engine/ops/linear/coded_blocks.h), on the device.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// codes: of `bits` bits, 4 or 8; values [2^bits] in the host's memory, read before this comes back. block: a multiple
// of 16.
template <class T>
struct DecodeBlocks {
  Index elements, block;
  int bits;
  const std::uint8_t* codes;
  const float* scales;
  T* out;
};
template <class T>
void decode_blocks(cudaStream_t stream, const DecodeBlocks<T>& arguments, const float* values);

}  // namespace longhaul::cuda
