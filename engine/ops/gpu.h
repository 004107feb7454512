// A GPU as the engine uses it: its memory and its operations. What makes one is handed down from main, because a build
// without CUDA has none, and tests put an emulated one in its place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/core/device.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual Device& device() = 0;
  virtual const DeviceOps& ops() const = 0;
};

struct GpuWanted {
  int index = 0;                // among those that the process sees
  std::int64_t bytes_free = 0;  // that have to be free before anything is taken; 0: not asked
};

// An error says what is missing and what to do about it; nothing was taken then.
using OpenGpu = std::function<Result<std::unique_ptr<Gpu>>(const GpuWanted&)>;

}  // namespace longhaul
