#include "tests/support/emulated_gpu/staged_ops.h"

#include <algorithm>

namespace longhaul::testing {

void StagedRanges::add(const void* data, std::int64_t bytes, bool written) {
  if (data == nullptr || bytes == 0 || device_.owns(data)) return;
  Range added{static_cast<std::byte*>(const_cast<void*>(data)), bytes, written};
  for (std::size_t i = 0; i < ranges_.size();) {  // one range takes in all that it overlaps
    const Range& other = ranges_[i];
    if (other.begin + other.bytes <= added.begin || added.begin + added.bytes <= other.begin) {
      ++i;
      continue;
    }
    std::byte* const end = std::max(other.begin + other.bytes, added.begin + added.bytes);
    added.begin = std::min(other.begin, added.begin);
    added.bytes = end - added.begin;
    added.written = added.written || other.written;
    ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  ranges_.push_back(std::move(added));
}

void StagedRanges::take_in() {
  for (Range& range : ranges_) {
    range.memory = DeviceMemory(device_, range.bytes);
    device_.copy_in(range.begin, range.memory.data(), range.bytes);
  }
}

void StagedRanges::bring_back() {
  for (const Range& range : ranges_)
    if (range.written) device_.copy_out(range.memory.data(), range.begin, range.bytes);
}

void* StagedRanges::there(const void* data, std::int64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  for (const Range& range : ranges_)
    if (bytes > 0 && begin >= range.begin && begin + bytes <= range.begin + range.bytes)
      return range.memory.data() + (begin - range.begin);
  return const_cast<void*>(data);  // empty, or memory of the device
}

}  // namespace longhaul::testing
