// Memory for what has another size in every micro-batch (rows that experts receive): it grows to the largest that was
// asked for and stays. What was in it is lost when it grows.
#pragma once

#include "engine/core/tensor/tensor.h"

namespace longhaul {

class GrowingMemory {
 public:
  explicit GrowingMemory(MemoryAccount* account = nullptr) : account_(account) {}

  View take(DType dtype, Shape shape) {
    const std::int64_t bytes = shape.size() * dtype_bytes(dtype);
    if (bytes > buffer_.bytes()) {
      buffer_ = Buffer();  // before the larger one is taken
      buffer_ = Buffer(bytes + bytes / 8, account_);
    }
    return View(buffer_.data(), dtype, shape);
  }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  MemoryAccount* account_;
};

}  // namespace longhaul
