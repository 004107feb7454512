// Room engine/core/cuda
// One GPU through CUDA's runtime: memory, streams, copies and timing.
// cuda_device.h implements engine/core/device/device.h; cuda_queue.h and cupti_timer.h its queue and its timer;
// cuda_wait.h waits for a stream, and says when a GPU stands still.
// It knows no operation and no kernel: those are engine/ops/cuda.
//
// One GPU of this rank: a stream, memory from an arena of large segments (engine/core/device/device_arena.h), copies.
// Of CUDA's runtime; no other header names it.
#pragma once

#include <memory>

#include "contracts/control/collective_deadline.h"
#include "engine/core/device/device.h"
#include "engine/core/device/device_arena.h"

struct CUstream_st;

namespace longhaul {

class CudaDevice : public Device {
 public:
  // As OpenGpu (engine/ops/gpu.h); each way to fail has its own error (engine/ops/cuda/open_gpu.h). A GPU that has not
  // come to an end of what it was asked for within deadline_ms ends the process, which says so.
  static Result<std::unique_ptr<CudaDevice>> open(int local_rank, bool shared,
                                                  const DeviceArena::Rule& rule = DeviceArena::Rule(),
                                                  std::int64_t deadline_ms = collective_deadline_ms);
  // Kernels and products go there too.
  virtual CUstream_st* stream() const = 0;
  // Its compute capability: ten times major plus minor, 90 for Hopper.
  virtual int capability() const = 0;
  // How often memory was taken from the driver or given back so far, of the device or of its host. Each such call may
  // wait for everything that is under way on the GPU: none may come between the steps of a training once it is warm.
  virtual std::int64_t driver_allocations() const = 0;
};

}  // namespace longhaul
