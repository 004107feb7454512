#include "engine/checkpoint/page_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/text.h"

namespace longhaul {

Result<PageBuffer> PageBuffer::create(std::int64_t bytes, MemoryAccount* account) {
  PageBuffer buffer;
  if (bytes <= 0) return buffer;
  const std::int64_t rounded = (bytes + checkpoint_page_bytes - 1) / checkpoint_page_bytes * checkpoint_page_bytes;
  const auto size = static_cast<std::size_t>(rounded);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return errno_error(ErrorCode::unavailable, format("there is no memory for {} bytes", rounded), errno);
#ifdef MADV_HUGEPAGE
  ::madvise(memory, size, MADV_HUGEPAGE);  // a wish
#endif
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.bytes_ = rounded;
  buffer.account_ = account;
  if (account != nullptr) account->add(rounded);
  for (std::int64_t at = 0; at < rounded; at += checkpoint_page_bytes) buffer.data_[at] = std::byte{0};
  return buffer;
}

void PageBuffer::release() {
  if (data_ == nullptr) return;
  ::munmap(data_, static_cast<std::size_t>(bytes_));
  if (account_ != nullptr) account_->add(-bytes_);
  data_ = nullptr, bytes_ = 0, account_ = nullptr;
}

void PageBuffer::swap(PageBuffer& other) noexcept {
  std::swap(data_, other.data_), std::swap(bytes_, other.bytes_), std::swap(account_, other.account_);
}

}  // namespace longhaul
