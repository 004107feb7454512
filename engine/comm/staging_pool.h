// Memory of a device, and pinned memory of its host, that operations between ranks use for a while. Both are slow to
// get and to give back (the device may wait for everything under way), so blocks go from one operation to the next.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/core/device.h"
#include "engine/core/tensor.h"

namespace longhaul {

enum class StagingPlace { device, host };

class StagingPool;

// Goes back to its pool, which it outlives in no case.
class StagingBlock {
 public:
  StagingBlock() = default;
  StagingBlock(StagingPool* pool, std::byte* memory, std::int64_t capacity)
      : pool_(pool), data_(memory), capacity_(capacity) {}
  ~StagingBlock();
  StagingBlock(StagingBlock&& other) noexcept { *this = std::move(other); }
  StagingBlock& operator=(StagingBlock&& other) noexcept {
    std::swap(pool_, other.pool_), std::swap(data_, other.data_), std::swap(capacity_, other.capacity_);
    return *this;
  }
  std::byte* data() const { return data_; }

 private:
  StagingPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

// One thread. `account`: what it holds, used or not; may be null.
class StagingPool {
 public:
  StagingPool(Device& device, StagingPlace place, MemoryAccount* account)
      : device_(device), place_(place), account_(account) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // At least `bytes`, not zeroed; of 0 bytes: an empty one.
  Result<StagingBlock> take(std::int64_t bytes);

 private:
  friend class StagingBlock;
  void release(std::byte* memory, std::int64_t capacity);

  Device& device_;
  StagingPlace place_;
  MemoryAccount* account_;
  std::multimap<std::int64_t, std::byte*> unused_;  // by capacity
};

}  // namespace longhaul
