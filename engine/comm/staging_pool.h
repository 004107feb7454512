// Memory of a device, and pinned memory of its host, that operations between ranks use for a while. Both are slow to
// get and to give back (the device may wait for everything under way), so blocks go from one operation to the next.
// Small blocks of the host are taken many at once: how many operations hold one at the same time depends on when the
// host looks at them, and none is to be taken in the middle of a training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/device/device.h"
#include "engine/core/tensor/tensor.h"

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
  std::int64_t capacity() const { return capacity_; }

 private:
  StagingPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

// One that several operations use, one after the other; empty, or held by each of them until it is done.
class SharedStaging {
 public:
  SharedStaging() = default;
  explicit SharedStaging(StagingBlock block) : block_(std::make_shared<StagingBlock>(std::move(block))) {}
  std::byte* data() const { return block_ ? block_->data() : nullptr; }
  std::int64_t capacity() const { return block_ ? block_->capacity() : 0; }

 private:
  std::shared_ptr<StagingBlock> block_;
};

// One thread. `account`: what it holds, used or not; may be null.
class StagingPool {
 public:
  // Of the host's blocks up to this size there are at least so many of each, once one was asked for.
  static constexpr std::int64_t small_bytes = std::int64_t{64} << 10, small_count = 64;

  StagingPool(Device& device, StagingPlace place, MemoryAccount* account)
      : device_(device), place_(place), account_(account) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // At least `bytes`, not zeroed; of 0 bytes: an empty one.
  Result<StagingBlock> take(std::int64_t bytes);

 private:
  friend class StagingBlock;
  std::int64_t count_of(std::int64_t capacity) const;

  Device& device_;
  StagingPlace place_;
  MemoryAccount* account_;
  std::vector<std::pair<std::byte*, std::int64_t>> taken_;  // from the device, each of one block or several
  std::multimap<std::int64_t, std::byte*> unused_;          // by capacity
};

}  // namespace longhaul
