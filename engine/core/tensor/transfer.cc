#include "engine/core/tensor/transfer.h"

#include <cstring>

#include "base/text/text.h"
#include "engine/core/device/device.h"

namespace longhaul {
namespace {

std::int64_t bytes_of_both(ConstView from, const View& to) {
  LH_ASSERT(from.dtype() == to.dtype() && from.size() == to.size(),
            format("{} {} -> {} {}", dtype_name(from.dtype()), from.size(), dtype_name(to.dtype()), to.size()));
  return from.bytes();
}

}  // namespace

void copy_in(const ComputeContext& context, ConstView from, View to) {
  const std::int64_t bytes = bytes_of_both(from, to);
  if (bytes == 0) return;
  if (Device* device = context.device()) return device->copy_in(from.data(), to.data(), bytes);
  std::memcpy(to.data(), from.data(), static_cast<std::size_t>(bytes));
}

void copy_out(const ComputeContext& context, ConstView from, View to) {
  const std::int64_t bytes = bytes_of_both(from, to);
  if (bytes == 0) return;
  if (Device* device = context.device()) return device->copy_out(from.data(), to.data(), bytes);
  std::memcpy(to.data(), from.data(), static_cast<std::size_t>(bytes));
}

void copy_within(const ComputeContext& context, ConstView from, View to) {
  const std::int64_t bytes = bytes_of_both(from, to);
  if (bytes == 0) return;
  if (Device* device = context.device()) return device->copy(from.data(), to.data(), bytes);
  std::memmove(to.data(), from.data(), static_cast<std::size_t>(bytes));
}

Tensor placed_copy(ConstView from, MemoryAccount* memory) {
  Tensor to(from.dtype(), from.shape(), memory);
  if (to.bytes() == 0) return to;
  if (Device* device = to.device())
    device->copy_in(from.data(), to.view().data(), to.bytes());
  else
    std::memcpy(to.view().data(), from.data(), static_cast<std::size_t>(to.bytes()));
  return to;
}

}  // namespace longhaul
