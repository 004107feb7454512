// An array whose size follows the micro-batch, in the memory that operations work in: of the host, or of the device
// that the account belongs to. What was in it is lost when it grows.
#pragma once

#include <span>
#include <vector>

#include "engine/core/tensor/memory_accounts.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

template <class T>
class PlacedArray {
 public:
  explicit PlacedArray(MemoryAccount* account = nullptr) : account_(account) {}

  std::span<T> take(std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (account_ == nullptr || account_->device == nullptr) {
      host_.resize(static_cast<std::size_t>(count));
      span_ = host_;
    } else {
      if (bytes > buffer_.bytes()) {
        buffer_ = Buffer();  // before the larger one is taken
        buffer_ = Buffer(bytes, account_);
      }
      span_ = {reinterpret_cast<T*>(buffer_.data()), static_cast<std::size_t>(count)};
    }
    return span_;
  }
  // As take() has left it.
  std::span<T> span() const { return span_; }
  std::int64_t size() const { return static_cast<std::int64_t>(span_.size()); }
  // Those that the account does not count.
  std::int64_t host_bytes() const { return bytes_of_vector(host_); }

 private:
  MemoryAccount* account_;
  std::vector<T> host_;
  Buffer buffer_;
  std::span<T> span_;
};

}  // namespace longhaul
