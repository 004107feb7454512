// Memory that begins at a page and is there before it is used: what checkpoints are staged in and what direct I/O reads
// from. Where a device's state is staged it is pinned: the device copies into it by itself, at the speed of its bus.
#pragma once

#include "engine/core/tensor/tensor.h"

namespace longhaul {

inline constexpr std::int64_t checkpoint_page_bytes = 4096;

class PageBuffer {
 public:
  PageBuffer() = default;
  // At least `bytes`, rounded up to whole pages; taken from the system and touched here, not at the first copy. The
  // error says how much could not be had. An account that is given must outlive the buffer.
  // So must a device, for which it is pinned; null: of the system alone.
  static Result<PageBuffer> create(std::int64_t bytes, MemoryAccount* account = nullptr, Device* pinned_for = nullptr);
  ~PageBuffer() { release(); }
  PageBuffer(PageBuffer&& other) noexcept { swap(other); }
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    if (this != &other) {
      release();
      swap(other);
    }
    return *this;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void release();
  void swap(PageBuffer& other) noexcept;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryAccount* account_ = nullptr;
  Device* device_ = nullptr;
  std::byte* pinned_ = nullptr;  // as the device gave it
};

}  // namespace longhaul
