// What the interface of the kernels needs of CUDA: the name of a stream, so that those who call kernels need neither
// nvcc nor CUDA's headers.
#pragma once

#include <cstdint>

#include "engine/core/tensor/dtype.h"

struct CUstream_st;  // as cuda_runtime_api.h declares it
using cudaStream_t = CUstream_st*;

namespace longhaul::cuda {

using Index = std::int64_t;

}  // namespace longhaul::cuda
