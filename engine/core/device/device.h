// Room engine/core/device
// A device as the engine uses it, without CUDA: memory, one queue of operations, copies.
// device.h is the contract for a GPU and for what tests put in its place; device_arena.h hands out its memory.
// device_queue.h is a second queue beside the operations; kernel_timer.h measures kernels.
// It knows no tensors, so that tensors can lie in its memory.
//
// The memory and the queue of a device: one GPU of this rank, or what tests put in its place. Copies and operations
// (engine/ops/device_ops.h) go through one stream, in the order in which they are asked for. A call that the device
// refuses ends the process and names itself, the rank and the step; only what can be expected to fail gives an error.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error/result.h"
#include "engine/core/device/device_queue.h"

namespace longhaul {

// What a stream was asked for while it was recorded: kernels, products and copies within the device, with the addresses
// and sizes that they were given. What changes from one replay to the next lies in the device's memory.
class DeviceRecording {
 public:
  virtual ~DeviceRecording() = default;
  // Asks the stream for all of it again, in that order, at the cost of one call. Not after the device has released any
  // memory since the recording (Device::releases): what was recorded might use it, and the process ends.
  virtual void replay() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // "NVIDIA H200, GPU 0"
  virtual std::int64_t free_bytes() const = 0;  // now, of all processes that use it

  // Aligned to 256, zeroed. An error says how much was asked for and how much there is.
  virtual Result<std::byte*> allocate(std::int64_t bytes) = 0;
  // May be handed out again at once: what operations were asked for before is done with it then, as they all go through
  // one stream. What a queue beside them was asked for (queue()) is not: who gives memory to one releases it when a
  // mark behind that was reached, and who uses new memory in one has it follow the operations first.
  virtual void release(std::byte* memory) = 0;
  // From now on no release waits for the device: what lies idle is kept for the next allocations. For ranks whose
  // devices exchange messages, as those under way may need what the waiting host has still to send.
  virtual void keep_released() {}

  // The host's memory may be changed again when this comes back.
  virtual void copy_in(const void* host, void* device, std::int64_t bytes) = 0;
  // Waits: the host has the bytes when this comes back.
  virtual void copy_out(const void* device, void* host, std::int64_t bytes) = 0;
  virtual void copy(const void* from, void* to, std::int64_t bytes) = 0;  // within the device
  virtual void zero(void* device, std::int64_t bytes) = 0;
  virtual void finish() = 0;  // until everything asked for is done

  // Whether an address lies in what allocate() gave and nobody has released: who takes spans that may lie here or in
  // the memory of the host (engine/comm) distinguishes them by it.
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

  // What `ask` asks the stream for is kept, not done. `ask` must not need an answer from the device: everything else of
  // this class, memory above all, ends the process meanwhile and names itself and `what`. So do what is to be recorded
  // once before it is recorded: then it has its scratch memory. Goes before the device, also while a replay is under
  // way.
  virtual std::unique_ptr<DeviceRecording> record(const std::string& what, const std::function<void()>& ask) = 0;
  // How often memory was released so far.
  virtual std::int64_t releases() const = 0;
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
