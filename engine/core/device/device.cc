#include "engine/core/device/device.h"

#include <utility>

namespace longhaul {

DeviceMemory::DeviceMemory(Device& device, std::int64_t bytes) : device_(&device), bytes_(bytes) {
  const Result<std::byte*> memory = device.allocate(bytes);
  LH_ASSERT(memory.ok(), memory.ok() ? "" : memory.error().message());
  data_ = *memory;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace longhaul
