// What a micro-batch brings and takes away, where the operations of a context find it: on the host as it is; on a
// device in memory of its own, to which ids and weights are copied and from which losses come back.
#pragma once

#include "engine/core/device/device.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/layers/micro_batch.h"

namespace longhaul {

// Of one slot.
class PlacedBatch {
 public:
  explicit PlacedBatch(MemoryAccount* account) : charge_(account) {}
  // Valid until the next call, as long as the batch's own memory.
  MicroBatch place(const ComputeContext& context, const MicroBatch& batch);

 private:
  DeviceMemory memory_;
  MemoryCharge charge_;
};

// Of a model: one micro-batch at a time.
class PlacedLosses {
 public:
  explicit PlacedLosses(MemoryAccount* account) : charge_(account) {}
  // For operations, of as many elements; weights may be empty. Valid until the next call.
  struct Spans {
    std::span<const float> weights;
    std::span<float> losses;
  };
  Spans place(const ComputeContext& context, std::span<const float> weights, std::span<float> losses);
  // What operations wrote there, to the host. Waits.
  void take(const ComputeContext& context, const Spans& placed, std::span<float> losses) const;

 private:
  DeviceMemory memory_;
  MemoryCharge charge_;
};

}  // namespace longhaul
