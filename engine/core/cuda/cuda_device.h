// One GPU of this rank: a stream, memory in pages of the driver's choice, copies. Of CUDA's runtime; no other header
// names it.
#pragma once

#include <memory>

#include "engine/core/device.h"

struct CUstream_st;

namespace longhaul {

class CudaDevice : public Device {
 public:
  // Kernels and products go there too.
  virtual CUstream_st* stream() const = 0;
};

struct GpuWanted {
  int index = 0;                // among those that the process sees
  std::int64_t bytes_free = 0;  // that have to be free; 0: not asked
  int capability_least = 80;    // 10 * major + minor: what this build has code for
};

// Before anything is taken. Errors (unavailable or invalid_input) tell apart, with a remedy: no driver, one too old for
// this CUDA, no GPU seen, no such index, one too old for this build, one in exclusive use by another process, one whose
// memory is in a bad state, and too little free memory.
Result<std::unique_ptr<CudaDevice>> open_gpu(const GpuWanted& wanted);

}  // namespace longhaul
