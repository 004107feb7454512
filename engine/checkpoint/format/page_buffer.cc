#include "engine/checkpoint/format/page_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/text/text.h"
#include "engine/core/device/device.h"

namespace longhaul {
namespace {

Result<std::byte*> take_from_system(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return errno_error(ErrorCode::unavailable, format("there is no memory for {} bytes", bytes), errno);
#ifdef MADV_HUGEPAGE
  ::madvise(memory, size, MADV_HUGEPAGE);  // a wish
#endif
  return static_cast<std::byte*>(memory);
}

// One page more than is used: nobody says that pinned memory begins at one.
Result<std::byte*> take_pinned(Device& device, std::int64_t bytes) {
  Result<std::byte*> taken = device.allocate_host(bytes + checkpoint_page_bytes);
  if (!taken.ok()) return make_error(ErrorCode::unavailable, taken.error().what, taken.error().hint);
  return taken;
}

std::byte* next_page(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto page = static_cast<std::uintptr_t>(checkpoint_page_bytes);
  return memory + ((address + page - 1) / page * page - address);
}

}  // namespace

Result<PageBuffer> PageBuffer::create(std::int64_t bytes, MemoryAccount* account, Device* pinned_for) {
  PageBuffer buffer;
  if (bytes <= 0) return buffer;
  const std::int64_t rounded = (bytes + checkpoint_page_bytes - 1) / checkpoint_page_bytes * checkpoint_page_bytes;
  if (pinned_for) {
    LH_TRY(buffer.pinned_, take_pinned(*pinned_for, rounded));
    buffer.device_ = pinned_for;
    buffer.data_ = next_page(buffer.pinned_);
  } else {
    LH_TRY(buffer.data_, take_from_system(rounded));
  }
  buffer.bytes_ = rounded;
  buffer.account_ = account;
  if (account != nullptr) account->add(rounded);
  for (std::int64_t at = 0; at < rounded; at += checkpoint_page_bytes) buffer.data_[at] = std::byte{0};
  return buffer;
}

void PageBuffer::release() {
  if (data_ == nullptr) return;
  if (device_)
    device_->release_host(pinned_);
  else
    ::munmap(data_, static_cast<std::size_t>(bytes_));
  if (account_ != nullptr) account_->add(-bytes_);
  data_ = nullptr, bytes_ = 0, account_ = nullptr, device_ = nullptr, pinned_ = nullptr;
}

void PageBuffer::swap(PageBuffer& other) noexcept {
  std::swap(data_, other.data_), std::swap(bytes_, other.bytes_), std::swap(account_, other.account_);
  std::swap(device_, other.device_), std::swap(pinned_, other.pinned_);
}

}  // namespace longhaul
