// The memory and the queue of a device: one GPU of this rank, or what tests put in its place. Copies and operations
// (engine/ops/device_ops.h) go through one stream, in the order in which they are asked for. A call that the device
// refuses ends the process and names itself, the rank and the step; only what can be expected to fail gives an error.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/core/device_queue.h"

namespace longhaul {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // "NVIDIA H200, GPU 0"
  virtual std::int64_t free_bytes() const = 0;  // now, of all processes that use it

  // Aligned to 256, zeroed. An error says how much was asked for and how much there is.
  virtual Result<std::byte*> allocate(std::int64_t bytes) = 0;
  // Of operations and copies, those asked for before may still use it; those of a queue have ended. Does not wait.
  virtual void release(std::byte* memory) = 0;

  // The host's memory may be changed again when this comes back.
  virtual void copy_in(const void* host, void* device, std::int64_t bytes) = 0;
  // Waits: the host has the bytes when this comes back.
  virtual void copy_out(const void* device, void* host, std::int64_t bytes) = 0;
  virtual void copy(const void* from, void* to, std::int64_t bytes) = 0;  // within the device
  virtual void zero(void* device, std::int64_t bytes) = 0;
  virtual void finish() = 0;  // until everything asked for is done

  // Whether an address lies in what allocate() gave and nobody has released: who takes spans that may lie here or in
  // the memory of the host (engine/comm) tells them apart by it.
  virtual bool owns(const void* address) const = 0;

  // For what goes on beside the operations. Goes before the device.
  virtual Result<std::unique_ptr<DeviceQueue>> queue() = 0;
  // The host's memory that a queue copies from and to. Not zeroed.
  virtual Result<std::byte*> allocate_host(std::int64_t bytes) = 0;
  virtual void release_host(std::byte* memory) = 0;
  // Memory of this process that kernels may write from now on, until unshare(): whole pages, and not of a file on a
  // disk. The address that kernels know it by. An error says that the system does not let it.
  virtual Result<std::byte*> share(std::byte* memory, std::int64_t bytes) = 0;
  virtual void unshare(std::byte* memory) = 0;
};

// Owns memory of a device. Moves, never copies; grows by being made anew.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // A device that has no room ends the process: what a rank takes was planned.
  DeviceMemory(Device& device, std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace longhaul
