// A GPU as the engine uses it: its memory and its operations. What makes one is handed down from main, because a build
// without CUDA has none, and tests put an emulated one in its place.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/core/device/device.h"
#include "engine/core/device/kernel_timer.h"
#include "engine/core/tensor/range_marks.h"
#include "engine/ops/attention/attention_choice.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual Device& device() = 0;
  virtual const DeviceOps& ops() const = 0;
  // Which implementations attentions take from now on; `observer` is called when a case comes for the first time.
  // Without this call: AttentionSettings' own values, reported to nobody. An error (unsupported): the settings name
  // cuDNN, and it cannot be used here.
  virtual Status use_attention(const AttentionSettings& settings, AttentionObserver observer) = 0;
  // Its kernels are timed from now on. An error (unavailable) says why they cannot be.
  virtual Result<std::unique_ptr<KernelTimer>> time_kernels() = 0;
  // For a profiler; null: there is none for this device.
  virtual std::unique_ptr<RangeMarks> marks() { return nullptr; }
};

// The GPU of the rank with that number among those of its host: the only one that the process sees, or the one of that
// number. More ranks than GPUs are an error, but where ranks may share one: they are assigned in turn then. An error
// says what is missing and what to do about it; nothing was taken then. Empty: this program has none.
using OpenGpu = std::function<Result<std::unique_ptr<Gpu>>(int local_rank, bool shared)>;
// device: "gpu", or "cpu", which is null. A build without one says so (unsupported).
Result<std::unique_ptr<Gpu>> open_device(const std::string& device, const OpenGpu& open, int local_rank = 0,
                                         bool shared = false);

}  // namespace longhaul
