// The bytes that one rank holds, by category (contracts/plan/memory_category.h): an account for each, and one for all.
#pragma once

#include <utility>

#include "contracts/plan/memory_category.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

class MemoryAccounts {
 public:
  MemoryAccounts() {
    for (MemoryAccount& account : accounts_) account.whole = &all_;
  }
  // Before anything is taken: what operations work on lies in that device's memory, the rest in the host's. Borrowed.
  void place_on(Device& device) {
    LH_ASSERT(all_.bytes_peak == 0, "memory was taken before its place was known");
    for (std::size_t i = 0; i < accounts_.size(); ++i)
      if (lies_on_device(static_cast<MemoryCategory>(i))) accounts_[i].device = &device;
  }
  MemoryAccounts(const MemoryAccounts&) = delete;
  MemoryAccounts& operator=(const MemoryAccounts&) = delete;

  // Before anything is taken: `account` counts all categories together as well. Borrowed.
  void count_in(MemoryAccount& account) {
    LH_ASSERT(all_.bytes_peak == 0, "memory was taken before it was known who counts it");
    all_.whole = &account;
  }

  MemoryAccount& of(MemoryCategory category) { return accounts_[static_cast<std::size_t>(category)]; }
  const MemoryAccount& all() const { return all_; }
  MemoryTable now() const {
    MemoryTable table;
    for (std::size_t i = 0; i < accounts_.size(); ++i) table.bytes[i] = accounts_[i].bytes_now;
    return table;
  }
  // Of each category its own largest, not all at the same time.
  MemoryTable peak() const {
    MemoryTable table;
    for (std::size_t i = 0; i < accounts_.size(); ++i) table.bytes[i] = accounts_[i].bytes_peak;
    return table;
  }

 private:
  MemoryAccount all_;
  std::array<MemoryAccount, memory_categories> accounts_;
};

// null: nobody counts.
inline MemoryAccount* account_of(MemoryAccounts* accounts, MemoryCategory category) {
  return accounts ? &accounts->of(category) : nullptr;
}

// Memory that is no Buffer: counted as what was said last.
class MemoryCharge {
 public:
  explicit MemoryCharge(MemoryAccount* account = nullptr) : account_(account) {}
  ~MemoryCharge() { set(0); }
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(account_, other.account_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  void set(std::int64_t bytes) {
    if (account_ != nullptr) account_->add(bytes - bytes_);
    bytes_ = bytes;
  }

 private:
  MemoryAccount* account_;
  std::int64_t bytes_ = 0;
};

template <class T>
std::int64_t bytes_of_vector(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

}  // namespace longhaul
