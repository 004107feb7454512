// Keys and values of many texts in one piece of memory, given out page by page: a text holds the pages that its tokens
// fill and no more, a page that it leaves is another's at once, and nothing is ever moved. In which pages a text lies
// says its table (engine/ops/attention/paged_attention.h). Texts that begin alike may hold the same pages, which are
// full and never written again; a page is free once nobody holds it.
//
// Whoever starts a text has pages promised for as long as it may become, so that no text is left without a page while
// it is written. Not thread-safe.
#pragma once

#include <vector>

#include "contracts/model/model_shape.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/attention/kv_table.h"

namespace longhaul {

// At most 15 tokens of a text's last page lie idle; and a page is long enough to be read at full speed: a layer's keys
// in it are 32 KiB where 8 heads have 128 elements of two bytes, and its number in the table is 4 bytes.
inline constexpr std::int64_t kKvPageTokens = 16;

class KvPool {
 public:
  // Takes bytes_for(pages) at once, in one piece, where the account says; the account outlives the pool.
  KvPool(const ModelShape& shape, std::int64_t pages, DType dtype, MemoryAccount* account = nullptr);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  static std::int64_t pages_for(std::int64_t tokens) { return (tokens + kKvPageTokens - 1) / kKvPageTokens; }
  static std::int64_t bytes_for(const ModelShape& shape, std::int64_t pages, DType dtype);

  std::int64_t pages() const { return pages_; }
  std::int64_t used() const { return pages_ - static_cast<std::int64_t>(free_.size()); }
  std::int64_t promised() const { return promised_; }  // those in use among them
  DType dtype() const { return dtype_; }
  Device* device() const { return memory_.device(); }  // null: of the host
  // Of one layer [pages, kKvPageTokens, kv_heads, head_dim].
  View keys(int layer) { return part(2 * layer); }
  View values(int layer) { return part(2 * layer + 1); }

 private:
  friend class KvPages;
  View part(std::int64_t number) { return memory_.view().rows(number * pages_, (number + 1) * pages_); }

  std::int64_t pages_, promised_ = 0;
  DType dtype_;
  Tensor memory_;                      // keys and values of the layers by turns
  std::vector<std::int32_t> free_;     // the last one goes first
  std::vector<std::int32_t> holders_;  // of each page
};

// The pages of one text, in the order of its tokens. The pool outlives it.
class KvPages {
 public:
  KvPages() = default;
  explicit KvPages(KvPool& pool) : pool_(&pool) {}
  ~KvPages() { promise(0); }
  KvPages(KvPages&& other) noexcept { swap(other); }
  KvPages& operator=(KvPages&& other) noexcept {
    if (this != &other) {
      promise(0);
      swap(other);
    }
    return *this;
  }

  KvPool* pool() const { return pool_; }  // null: none
  // From now on the text may hold so many pages, and gives back what it holds beyond them. False, and nothing is
  // changed: fewer are left that nobody was promised.
  bool promise(std::int64_t pages);
  std::int64_t promised() const { return promised_; }
  // Holds exactly so many, at most those promised.
  void resize(std::int64_t pages);
  // Holds the first `pages` of another text of the pool, as that does; holds none yet.
  void share(const KvPages& other, std::int64_t pages);
  // Nobody else holds page number `at` of the text, where it has one.
  bool is_own(std::int64_t at) const;
  const std::vector<std::int32_t>& numbers() const { return numbers_; }

 private:
  void swap(KvPages& other) noexcept;

  KvPool* pool_ = nullptr;
  std::int64_t promised_ = 0;
  std::vector<std::int32_t> numbers_;
};

}  // namespace longhaul
