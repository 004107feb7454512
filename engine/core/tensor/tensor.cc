#include "engine/core/tensor/tensor.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/text/text.h"
#include "engine/core/device/device.h"

namespace longhaul {

Buffer::Buffer(std::int64_t bytes, MemoryAccount* account) : bytes_(bytes), account_(account) {
  LH_ASSERT(bytes >= 0, std::to_string(bytes));
  const std::size_t size = bytes == 0 ? kTensorAlignment : static_cast<std::size_t>(bytes);
  if (Device* of = device()) {
    const Result<std::byte*> memory = of->allocate(static_cast<std::int64_t>(size));
    LH_ASSERT(memory.ok(), memory.ok() ? "" : memory.error().message());  // what a rank takes was planned
    data_ = *memory;
  } else {
    data_ = static_cast<std::byte*>(::operator new(size, std::align_val_t{kTensorAlignment}));
    std::memset(data_, 0, size);
  }
  if (account_ != nullptr) account_->add(bytes_);
}

void Buffer::release() {
  if (data_ == nullptr) return;
  if (Device* of = device())
    of->release(data_);
  else
    ::operator delete(data_, std::align_val_t{kTensorAlignment});
  if (account_ != nullptr) account_->add(-bytes_);
  data_ = nullptr;
  bytes_ = 0;
  account_ = nullptr;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(account_, other.account_);
}

std::string Shape::text() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) out += (i == 0 ? "" : ", ") + std::to_string((*this)[i]);
  return out + "]";
}

View Arena::allocate(DType dtype, Shape shape) {
  const std::int64_t bytes = bytes_for(dtype, shape);
  LH_ASSERT(used_bytes_ + bytes <= capacity_bytes(),
            format("arena of {} bytes, {} used, {} more asked for {} {}", capacity_bytes(), used_bytes_, bytes,
                   dtype_name(dtype), shape.text()));
  View view(buffer_.data() + used_bytes_, dtype, shape);
  used_bytes_ += bytes;
  if (used_bytes_ > peak_bytes_) peak_bytes_ = used_bytes_;
  return view;
}

}  // namespace longhaul
