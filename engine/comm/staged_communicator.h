// A communicator for ranks whose data lies on a device, by way of the host: what an operation is given of the device's
// memory is copied to the host, another communicator does the operation there, and the outcome is copied back when it
// is done. The same contract and the same bits as the other one; several ranks may share one GPU. Slow by what the
// copies take, and starting an operation waits for what the device was asked for before: for tests of what goes on
// between ranks, and where NCCL cannot be had.
//
// Each span lies in the device's memory or in the host's as a whole: the device says which (Device::owns). What lies in
// the host's is given to the other communicator as it is.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"
#include "engine/core/device/device.h"

namespace longhaul {

// `inner`: newly made, with options of its own; nobody else uses it. What is counted, traced, shown on the heartbeat
// page and limited in time are operations of the staged one, by the inner's options. The device is borrowed.
std::unique_ptr<Communicator> make_staged_communicator(Device& device, std::unique_ptr<Communicator> inner);

}  // namespace longhaul
