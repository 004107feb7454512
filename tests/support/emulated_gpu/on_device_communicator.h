// Runs what was written for spans of the host on a communicator for a device: everything an operation is given lies in
// the device's memory while it runs, and comes back to the host when it is done. Between are only copies, so that a
// check of the contract checks the communicator for the device.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"
#include "engine/core/device/device.h"

namespace longhaul::testing {

// Both are taken over or borrowed as by make_staged_communicator.
std::unique_ptr<Communicator> make_on_device_communicator(Device& device, std::unique_ptr<Communicator> inner);

}  // namespace longhaul::testing
