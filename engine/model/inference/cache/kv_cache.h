// Room engine/model/inference/cache
// Keys and values of texts, which a model for generation attends to.
// kv_cache.h is one text; kv_pool.h the memory of many, in pages.
// It does not attend: that is engine/model/inference/cached_attention.h.
//
// Keys and values of one sequence, for every layer: what token-by-token generation reads instead of computing it again.
// Keys are kept rotated (RoPE applied). They lie in memory of their own, one token behind the other, or in pages of a
// pool (kv_pool.h). One owner per sequence; not thread-safe.
#pragma once

#include <vector>

#include "contracts/model/model_shape.h"
#include "engine/core/tensor/tensor.h"
#include "engine/model/inference/cache/kv_pool.h"

namespace longhaul {

class KvCache {
 public:
  KvCache() = default;
  // Room for `length_max` tokens; memory is taken at once, where the account says: bytes_for(). The account, where one
  // is given, outlives the cache.
  KvCache(const ModelShape& shape, std::int64_t length_max, DType dtype, MemoryAccount* account = nullptr);

  // In pages of a pool, which outlives it. Has room for no token before reserve().
  explicit KvCache(KvPool& pool) : dtype_(pool.dtype()), pages_(pool) {}
  // In pages: room for `length_max` tokens from now on, at least those it holds; 0 forgets all and gives all back.
  // Pages are taken as tokens come. False, and nothing is changed: so many pages are not left that nobody was promised.
  bool reserve(std::int64_t length_max);
  KvPool* pool() const { return pages_.pool(); }  // null: memory of its own
  const std::vector<std::int32_t>& pages() const { return pages_.numbers(); }

  static std::int64_t bytes_for(const ModelShape& shape, std::int64_t length_max, DType dtype);
  std::int64_t length() const { return length_; }
  std::int64_t length_max() const { return length_max_; }
  DType dtype() const { return dtype_; }
  Device* device() const {  // null: of the host
    if (pool() != nullptr) return pool()->device();
    return layers_.empty() ? nullptr : layers_.front().k.device();
  }
  // Forgets everything from token `length` on: a shared prefix stays, a new text starts with truncate(0).
  void truncate(std::int64_t length) {
    LH_ASSERT(length >= 0 && length <= length_, std::to_string(length));
    length_ = length;
    if (pool() != nullptr) pages_.resize(KvPool::pages_for(length));
  }

  // Holds the first `count` tokens of another cache of the same model from now on; holds none yet. With memory of their
  // own, on the host, they are copied. In pages of one pool, the pages that these tokens fill are shared, so that it
  // may hold fewer. How many it holds comes back.
  std::int64_t copy_beginning(const KvCache& other, std::int64_t count);

  // [length_max, kv_heads, head_dim] of one layer; not in pages.
  View keys(int layer) { return layers_[static_cast<std::size_t>(layer)].k; }
  View values(int layer) { return layers_[static_cast<std::size_t>(layer)].v; }
  // In pages: takes those for `count` more tokens, which are to be written.
  void hold(std::int64_t count) {
    if (pool() == nullptr) return;
    LH_ASSERT(pages_.is_own(length_ / kKvPageTokens), "a page that another text holds, too, is to be written");
    pages_.resize(KvPool::pages_for(length_ + count));
  }
  // After the keys and values of `count` tokens were written behind the last one in every layer.
  void advance(std::int64_t count) {
    LH_ASSERT(count >= 0 && length_ + count <= length_max_, std::to_string(count));
    length_ += count;
  }

 private:
  struct Layer {
    Tensor k, v;
  };
  std::vector<Layer> layers_;
  std::int64_t length_ = 0, length_max_ = 0;
  DType dtype_ = DType::f32;
  KvPages pages_;
};

}  // namespace longhaul
