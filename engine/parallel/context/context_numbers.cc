#include "engine/parallel/context/context_numbers.h"

#include <algorithm>

namespace longhaul {

void ContextNumbers::gather(std::int64_t pieces, std::span<const float> own, std::span<float> whole) {
  if (!shard_.splits()) return void(std::ranges::copy(own, whole.begin()));
  if (!status_.ok()) return;
  LH_ASSERT(whole.size() == own.size() * static_cast<std::size_t>(shard_.ranks()), std::to_string(whole.size()));
  of_ranks_.resize(whole.size());
  status_ = mesh_->context().all_gather(own, of_ranks_);
  if (status_.ok()) shard_.join<float>(pieces / 2, of_ranks_, whole);
}

}  // namespace longhaul
