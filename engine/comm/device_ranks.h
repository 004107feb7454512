// The ranks of a launch that each have a device, and communicators between them that need no MPI: NCCL's
// (engine/comm/nccl/), which a program has only where it was built with CUDA. main says what starts them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/comm/rendezvous.h"

namespace longhaul {

class Device;

// One per process, made after the device, destroyed after every communicator.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  // All ranks, as a fresh communicator. Every rank asks for the same epochs in the same order; nobody is waited for. An
  // error (unavailable): a communicator could not be left, and the process has to be started anew.
  virtual Result<std::unique_ptr<Communicator>> world(std::uint64_t epoch, const CommOptions& options) = 0;
  virtual std::string version() const = 0;  // of the library, "2.28.9"
  // Why the host counts completed collectives on the heartbeat page and not the device, as it should; empty: the device
  // does, or there is no page. Collectives that a rank does not wait for are then counted when it does.
  virtual const std::string& counted_by_host() const = 0;
};

// `memory`: of copies on the device and on its host; all but rank and size is borrowed. An error says what is missing.
using StartDeviceRanks = std::function<Result<std::unique_ptr<DeviceRanks>>(Device& device, Rendezvous& rendezvous,
                                                                            int rank, int size, MemoryAccount* memory)>;

}  // namespace longhaul
