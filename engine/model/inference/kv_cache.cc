#include "engine/model/inference/kv_cache.h"

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

std::int64_t KvCache::bytes_for(const ModelShape& shape, std::int64_t length_max, DType dtype) {
  return 2 * shape.num_hidden_layers * length_max * shape.kv_size() * dtype_bytes(dtype);
}

}  // namespace longhaul
