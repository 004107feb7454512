// One GPU of this rank: a stream, memory from an arena of large segments (engine/core/device_arena.h), copies. Of
// CUDA's runtime; no other header names it.
#pragma once

#include <memory>

#include "engine/core/device.h"
#include "engine/core/device_arena.h"

struct CUstream_st;

namespace longhaul {

class CudaDevice : public Device {
 public:
  // As OpenGpu (engine/ops/gpu.h); what can be wrong is told apart (engine/ops/cuda/open_gpu.h).
  static Result<std::unique_ptr<CudaDevice>> open(int local_rank, bool shared,
                                                  const DeviceArena::Rule& rule = DeviceArena::Rule());
  // Kernels and products go there too.
  virtual CUstream_st* stream() const = 0;
  // Its compute capability: ten times major plus minor, 90 for Hopper.
  virtual int capability() const = 0;
};

}  // namespace longhaul
