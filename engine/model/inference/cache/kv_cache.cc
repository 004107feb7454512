#include "engine/model/inference/cache/kv_cache.h"

#include <cstring>

#include "base/text/text.h"

namespace longhaul {

KvCache::KvCache(const ModelShape& shape, std::int64_t length_max, DType dtype, MemoryAccount* account)
    : length_max_(length_max), dtype_(dtype) {
  const Shape kv{length_max, shape.num_key_value_heads, shape.head_dim};
  for (std::int64_t layer = 0; layer < shape.num_hidden_layers; ++layer)
    layers_.push_back({Tensor(dtype, kv, account), Tensor(dtype, kv, account)});
}

bool KvCache::reserve(std::int64_t length_max) {
  LH_ASSERT(pool() != nullptr && (length_max == 0 || length_max >= length_), std::to_string(length_max));
  if (length_max == 0) length_ = 0;
  if (!pages_.promise(KvPool::pages_for(length_max))) return false;
  length_max_ = length_max;
  return true;
}

std::int64_t KvCache::copy_beginning(const KvCache& other, std::int64_t count) {
  if (pool() != nullptr) {
    LH_ASSERT(length_ == 0 && count <= other.length_, format("{} tokens of {}", count, other.length_));
    pages_.share(other.pages_, count / kKvPageTokens);
    return length_ = count / kKvPageTokens * kKvPageTokens;
  }
  LH_ASSERT(other.pool() == nullptr && device() == nullptr && other.device() == nullptr,
            "a beginning is copied between caches with memory of their own on the host");
  LH_ASSERT(count >= 0 && count <= other.length_ && count <= length_max_ && dtype_ == other.dtype_ &&
                layers_.size() == other.layers_.size(),
            format("{} tokens of {} into a cache for {}", count, other.length_, length_max_));
  const auto copy = [count](const Tensor& from, Tensor& to) {
    const std::int64_t row = from.shape()[1] * from.shape()[2] * dtype_bytes(from.dtype());
    std::memcpy(to.view().data(), from.view().data(), static_cast<std::size_t>(count * row));
  };
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    copy(other.layers_[layer].k, layers_[layer].k), copy(other.layers_[layer].v, layers_[layer].v);
  return length_ = count;
}

std::int64_t KvCache::bytes_for(const ModelShape& shape, std::int64_t length_max, DType dtype) {
  return 2 * shape.num_hidden_layers * length_max * shape.kv_size() * dtype_bytes(dtype);
}

}  // namespace longhaul
