#include "tests/support/emulated_device.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/support/emulated_queue.h"

namespace longhaul::testing {

Result<std::byte*> EmulatedDevice::allocate(std::int64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t{256}));
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  ranges_.add(memory, bytes);
  return memory;
}
void EmulatedDevice::release(std::byte* memory) {
  ranges_.remove(memory);
  ::operator delete(memory, std::align_val_t{256});
}
void EmulatedDevice::copy_in(const void* host, void* device, std::int64_t bytes) {
  std::memcpy(device, host, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy_out(const void* device, void* host, std::int64_t bytes) {
  std::memcpy(host, device, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy(const void* from, void* to, std::int64_t bytes) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::zero(void* device, std::int64_t bytes) {
  std::memset(device, 0, static_cast<std::size_t>(bytes));
}

Result<std::unique_ptr<DeviceQueue>> EmulatedDevice::queue() {
  return std::unique_ptr<DeviceQueue>(std::make_unique<EmulatedQueue>());
}
Result<std::byte*> EmulatedDevice::allocate_host(std::int64_t bytes) {
  return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t{256}));
}
void EmulatedDevice::release_host(std::byte* memory) {
  ::operator delete(memory, std::align_val_t{256});
}

void HostGemm::run(cudaStream_t, const GemmShape& shape, ConstView a, ConstView b, View c) {
  gemm_portable(context_, shape, a, b, c);
}

}  // namespace longhaul::testing
