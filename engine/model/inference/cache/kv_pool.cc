#include "engine/model/inference/cache/kv_pool.h"

#include <utility>

#include "base/text/text.h"

namespace longhaul {

KvPool::KvPool(const ModelShape& shape, std::int64_t pages, DType dtype, MemoryAccount* account)
    : pages_(pages),
      dtype_(dtype),
      memory_(dtype, {2 * shape.num_hidden_layers * pages, kKvPageTokens, shape.num_key_value_heads, shape.head_dim},
              account) {
  for (std::int64_t page = pages; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
  holders_.resize(free_.size(), 0);
}

std::int64_t KvPool::bytes_for(const ModelShape& shape, std::int64_t pages, DType dtype) {
  return 2 * shape.num_hidden_layers * pages * kKvPageTokens * shape.kv_size() * dtype_bytes(dtype);
}

bool KvPages::promise(std::int64_t pages) {
  if (pool_ == nullptr) return pages == 0;
  if (pool_->promised_ - promised_ + pages > pool_->pages_) return false;
  if (static_cast<std::int64_t>(numbers_.size()) > pages) resize(pages);
  pool_->promised_ += pages - promised_;
  promised_ = pages;
  return true;
}

void KvPages::resize(std::int64_t pages) {
  LH_ASSERT(pages <= promised_, format("{} pages, {} were promised", pages, promised_));
  while (static_cast<std::int64_t>(numbers_.size()) > pages) {
    if (--pool_->holders_[static_cast<std::size_t>(numbers_.back())] == 0) pool_->free_.push_back(numbers_.back());
    numbers_.pop_back();
  }
  while (static_cast<std::int64_t>(numbers_.size()) < pages) {
    LH_ASSERT(!pool_->free_.empty(), format("{} of {} pages were promised", pool_->promised_, pool_->pages_));
    numbers_.push_back(pool_->free_.back());
    pool_->free_.pop_back();
    pool_->holders_[static_cast<std::size_t>(numbers_.back())] = 1;
  }
}

void KvPages::share(const KvPages& other, std::int64_t pages) {
  LH_ASSERT(pool_ != nullptr && pool_ == other.pool_ && numbers_.empty() && pages <= promised_ &&
                pages <= std::ssize(other.numbers_),
            format("{} pages of {}, {} were promised", pages, other.numbers_.size(), promised_));
  numbers_.assign(other.numbers_.begin(), other.numbers_.begin() + pages);
  for (const std::int32_t page : numbers_) ++pool_->holders_[static_cast<std::size_t>(page)];
}

bool KvPages::is_own(std::int64_t at) const {
  return at >= std::ssize(numbers_) ||
         pool_->holders_[static_cast<std::size_t>(numbers_[static_cast<std::size_t>(at)])] == 1;
}

void KvPages::swap(KvPages& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(promised_, other.promised_);
  numbers_.swap(other.numbers_);
}

}  // namespace longhaul
