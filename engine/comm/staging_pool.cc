#include "engine/comm/staging_pool.h"

#include <algorithm>
#include <bit>

namespace longhaul {

StagingBlock::~StagingBlock() {
  if (data_ != nullptr) pool_->unused_.emplace(capacity_, data_);
}

StagingPool::~StagingPool() {
  for (const auto& [memory, bytes] : taken_) {
    place_ == StagingPlace::device ? device_.release(memory) : device_.release_host(memory);
    if (account_ != nullptr) account_->add(-bytes);
  }
}

// How many blocks of a capacity are taken at once.
std::int64_t StagingPool::count_of(std::int64_t capacity) const {
  constexpr std::int64_t worth_a_call = std::int64_t{256} << 10;
  if (place_ == StagingPlace::device || capacity > small_bytes) return 1;
  return std::max(small_count, worth_a_call / capacity);
}

Result<StagingBlock> StagingPool::take(std::int64_t bytes) {
  if (bytes == 0) return StagingBlock();
  // Sizes in powers of two, as long as that wastes little.
  constexpr std::int64_t large = std::int64_t{64} << 20, page = std::int64_t{2} << 20, least = 256;
  const std::int64_t capacity =
      bytes <= large ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, least))))
                     : (bytes + page - 1) / page * page;
  constexpr std::int64_t waste_max = 4;  // a block is used for what needs a quarter of it or more
  auto found = unused_.lower_bound(bytes);
  if (found == unused_.end() || found->first > waste_max * capacity) {
    const std::int64_t count = count_of(capacity), whole = count * capacity;
    LH_TRY(std::byte * memory, place_ == StagingPlace::device ? device_.allocate(whole) : device_.allocate_host(whole));
    if (account_ != nullptr) account_->add(whole);
    taken_.emplace_back(memory, whole);
    for (std::int64_t i = 1; i < count; ++i) unused_.emplace(capacity, memory + i * capacity);
    return StagingBlock(this, memory, capacity);
  }
  StagingBlock block(this, found->second, found->first);
  unused_.erase(found);
  return block;
}

}  // namespace longhaul
