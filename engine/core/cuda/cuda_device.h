// One GPU of this rank: a stream, memory in pages of the driver's choice, copies. Of CUDA's runtime; no other header
// names it.
#pragma once

#include <memory>

#include "engine/core/device.h"

struct CUstream_st;

namespace longhaul {

class CudaDevice : public Device {
 public:
  // As OpenGpu (engine/ops/gpu.h); what can be wrong is told apart (engine/ops/cuda/open_gpu.h).
  static Result<std::unique_ptr<CudaDevice>> open(int local_rank, bool shared);
  // Kernels and products go there too.
  virtual CUstream_st* stream() const = 0;
};

}  // namespace longhaul
