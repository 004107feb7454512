#include "engine/comm/staging_pool.h"

#include <bit>

namespace longhaul {

StagingBlock::~StagingBlock() {
  if (data_ != nullptr) pool_->unused_.emplace(capacity_, data_);
}

StagingPool::~StagingPool() {
  for (const auto& [capacity, memory] : unused_) release(memory, capacity);
}

void StagingPool::release(std::byte* memory, std::int64_t capacity) {
  place_ == StagingPlace::device ? device_.release(memory) : device_.release_host(memory);
  if (account_ != nullptr) account_->add(-capacity);
}

Result<StagingBlock> StagingPool::take(std::int64_t bytes) {
  if (bytes == 0) return StagingBlock();
  constexpr std::int64_t waste_max = 4;  // a block is used for what needs a quarter of it or more
  auto found = unused_.lower_bound(bytes);
  if (found == unused_.end() || found->first > waste_max * bytes) {
    // Sizes in powers of two, as long as that wastes little.
    constexpr std::int64_t large = std::int64_t{64} << 20, page = std::int64_t{2} << 20;
    const std::int64_t capacity =
        bytes <= large ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes < 256 ? 256 : bytes)))
                       : (bytes + page - 1) / page * page;
    LH_TRY(std::byte * memory,
           place_ == StagingPlace::device ? device_.allocate(capacity) : device_.allocate_host(capacity));
    if (account_ != nullptr) account_->add(capacity);
    return StagingBlock(this, memory, capacity);
  }
  StagingBlock block(this, found->second, found->first);
  unused_.erase(found);
  return block;
}

}  // namespace longhaul
