#include "engine/checkpoint/state/state_array.h"

#include <cstring>

#include "engine/core/device/device.h"

namespace longhaul {
namespace {

std::span<std::byte> bytes_of(const View& view) {
  return {static_cast<std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

}  // namespace

Status StateArray::read(FlatRange range, std::span<std::byte> out) const {
  LH_ASSERT(static_cast<std::int64_t>(out.size()) == range.size() * dtype_bytes(dtype_), std::to_string(out.size()));
  if (place_) return place_->fetch(begin_ + range.begin * dtype_bytes(dtype_), out);
  if (out.empty()) return {};
  const void* from = memory_.rows(range.begin, range.end).data();
  if (device_)
    device_->copy_out(from, out.data(), static_cast<std::int64_t>(out.size()));
  else
    std::memcpy(out.data(), from, out.size());
  return {};
}

Status StateArray::write(FlatRange range, std::span<const std::byte> bytes) const {
  LH_ASSERT(static_cast<std::int64_t>(bytes.size()) == range.size() * dtype_bytes(dtype_),
            std::to_string(bytes.size()));
  if (place_) return place_->store(begin_ + range.begin * dtype_bytes(dtype_), bytes);
  if (bytes.empty()) return {};
  void* to = memory_.rows(range.begin, range.end).data();
  if (device_)
    device_->copy_in(bytes.data(), to, static_cast<std::int64_t>(bytes.size()));
  else
    std::memcpy(to, bytes.data(), bytes.size());
  return {};
}

Status StateArray::edit(FlatRange range, const std::function<Status(View values)>& change) const {
  if (in_memory()) return change(memory_.rows(range.begin, range.end));
  Tensor copy(dtype_, Shape{range.size()});
  LH_CHECK(read(range, bytes_of(copy.view())));
  LH_CHECK(change(copy.view()));
  return write(range, bytes_of(copy.view()));
}

}  // namespace longhaul
