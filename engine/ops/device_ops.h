// Room engine/ops
// All operations of a device in one interface, and how a GPU is handed to the engine.
// device_ops.h joins the interfaces of device/; contracts are in attention/, linear/, experts/, loss/ and pointwise/.
// gpu.h is what main opens; cpu_levels.h limits the instruction set for tests.
// It may include neither cpu/ nor cuda/: implementations depend on the contracts, not the reverse.
//
// The operations of a device (a GPU), under the contracts of the headers of this room: every view and span that they
// are given lies in the device's memory, except where a comment says so. They are put into the device's one stream, in
// the order of the calls, and may run later; what gives a number back waits for it. An operation with a context that
// has a device comes here (ComputeContext::device_ops).
//
// What an implementation does not have ends the process and says so: an operation is there or it is not, it never runs
// somewhere else unasked.
#pragma once

#include "engine/ops/device/attention_device_ops.h"
#include "engine/ops/device/expert_device_ops.h"
#include "engine/ops/device/linear_device_ops.h"
#include "engine/ops/device/loss_device_ops.h"
#include "engine/ops/device/norm_device_ops.h"
#include "engine/ops/device/pointwise_device_ops.h"

namespace longhaul {

// Virtual bases, so that an implementation may be put together of one class for each kind of operation.
class DeviceOps : public virtual AttentionDeviceOps,
                  public virtual ExpertDeviceOps,
                  public virtual LinearDeviceOps,
                  public virtual LossDeviceOps,
                  public virtual NormDeviceOps,
                  public virtual PointwiseDeviceOps {};

}  // namespace longhaul
