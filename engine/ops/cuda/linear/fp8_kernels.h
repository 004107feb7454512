// Casts to numbers of eight bits on the device (engine/ops/linear/fp8.h), with the processor's bits.
#pragma once

#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/linear/fp8.h"

namespace longhaul::cuda {

// x lies as [to.rows, to.columns], or transposed.
template <class T>
struct CastFp8 {
  Fp8Cast how;
  const T* x;
  std::uint8_t* codes;
  std::uint8_t* scales;  // of a tensor: read; of blocks: written
};
template <class T>
void cast_fp8(cudaStream_t stream, const CastFp8<T>& arguments);

// scale[0] from amax[0].
void tensor_scale_fp8(cudaStream_t stream, NumberFormat format, int margin, const float* amax, float* scale);

}  // namespace longhaul::cuda
