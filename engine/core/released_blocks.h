// Blocks of a device's memory that were released and go to whoever asks for about as much. To give memory back, CUDA
// waits for everything that the device was asked for; where a message of another rank is under way that may be for
// ever, because this rank cannot send meanwhile what the other waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/result.h"

namespace longhaul {

class ReleasedBlocks {
 public:
  // A new block that was got from the device.
  void add(std::byte* memory, std::int64_t bytes) { in_use_[memory] = bytes; }
  // A released one of at least so many bytes, and no more than twice as many; null: there is none.
  std::byte* take(std::int64_t bytes) {
    const auto found = released_.lower_bound(bytes);
    if (found == released_.end() || found->first / 2 > bytes) return nullptr;
    std::byte* const memory = found->second;
    in_use_[memory] = found->first;
    bytes_ -= found->first;
    released_.erase(found);
    return memory;
  }
  void release(std::byte* memory) {
    const auto found = in_use_.find(memory);
    LH_ASSERT(found != in_use_.end(), "released twice, or never taken");
    released_.emplace(found->second, memory);
    bytes_ += found->second;
    in_use_.erase(found);
  }
  // Gives all that is released to `free`.
  template <class F>
  void drain(const F& free) {
    for (const auto& [bytes, memory] : released_) free(memory);
    released_.clear();
    bytes_ = 0;
  }
  std::int64_t bytes() const { return bytes_; }  // released

 private:
  std::map<std::byte*, std::int64_t> in_use_;
  std::multimap<std::int64_t, std::byte*> released_;  // by size
  std::int64_t bytes_ = 0;
};

}  // namespace longhaul
