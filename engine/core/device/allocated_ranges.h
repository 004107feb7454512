// Which memory was given out: what a device answers Device::owns() with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>

namespace longhaul {

class AllocatedRanges {
 public:
  void add(const std::byte* memory, std::int64_t bytes) { ends_[memory] = memory + bytes; }
  void remove(const std::byte* memory) { ends_.erase(memory); }
  bool contain(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    const auto behind = ends_.upper_bound(at);
    return behind != ends_.begin() && std::less<>()(at, std::prev(behind)->second);
  }

 private:
  std::map<const std::byte*, const std::byte*, std::less<>> ends_;  // by where each begins
};

}  // namespace longhaul
