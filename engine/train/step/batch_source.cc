#include "engine/train/step/batch_source.h"

#include <algorithm>
#include <optional>

#include "engine/core/tensor/memory_accounts.h"

namespace longhaul {
namespace {

// Every sequence gets `to - from` more tokens: `value`, or what its last token has.
template <class T>
void pad(std::int64_t sequences, std::int64_t from, std::int64_t to, std::optional<T> value, std::vector<T>& x) {
  if (x.empty() || from == to) return;
  std::vector<T> padded;
  padded.reserve(static_cast<std::size_t>(sequences * to));
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto begin = x.begin() + s * from;
    padded.insert(padded.end(), begin, begin + from);
    padded.insert(padded.end(), static_cast<std::size_t>(to - from), value.value_or(*(begin + from - 1)));
  }
  x = std::move(padded);
}

}  // namespace

// Nobody sees what is added at the end: attention is causal, and it has no targets.
void keep_context_shard(const ContextShard& shard, BatchStorage& batch) {
  if (!shard.splits()) return batch.mark_padding();
  const std::int64_t sequences = batch.sequences, length = batch.length, padded = shard.padded(length);
  if (batch.positions.empty())
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::int64_t i = 0; i < length; ++i) batch.positions.push_back(static_cast<std::int32_t>(i));
  pad<std::int32_t>(sequences, length, padded, 0, batch.ids);
  pad<std::int32_t>(sequences, length, padded, padding_target, batch.targets);
  pad<float>(sequences, length, padded, 0.0F, batch.weights);
  pad<std::int32_t>(sequences, length, padded, std::nullopt, batch.positions);
  pad<std::int32_t>(sequences, length, padded, std::nullopt, batch.first_key);
  for (std::vector<float>* of_targets :
       {&batch.drawn, &batch.reference, &batch.advantages, &batch.values, &batch.returns})
    pad<float>(sequences, length, padded, 0.0F, *of_targets);
  batch.mark_padding();
  const auto cut = [&](auto& x) {
    if (!x.empty()) x = shard.own(sequences, padded, x);
  };
  batch.whole_first_key = batch.first_key;
  if (batch.judges_texts()) batch.whole_targets = batch.targets;
  cut(batch.ids), cut(batch.targets), cut(batch.weights), cut(batch.positions), cut(batch.first_key);
  cut(batch.real);
  batch.sequences = 2 * sequences, batch.length = shard.chunk_length(padded);
}

std::int64_t BatchStorage::bytes() const {
  return bytes_of_vector(ids) + bytes_of_vector(targets) + bytes_of_vector(positions) + bytes_of_vector(first_key) +
         bytes_of_vector(whole_first_key) + bytes_of_vector(weights) + bytes_of_vector(per_sequence) +
         bytes_of_vector(whole_targets) + bytes_of_vector(drawn) + bytes_of_vector(reference) +
         bytes_of_vector(advantages) + bytes_of_vector(values) + bytes_of_vector(returns) + bytes_of_vector(real);
}

std::int64_t BatchStorage::real_tokens() const {
  return static_cast<std::int64_t>(targets.size()) - std::ranges::count(targets, padding_target);
}

void BatchStorage::mark_padding() {
  real.clear();
  if (std::ranges::find(targets, padding_target) == targets.end()) return;
  real.reserve(targets.size());
  for (const std::int32_t target : targets) real.push_back(target == padding_target ? 0 : 1);
}

void BatchStorage::fit() {
  if (bytes() <= fitted) return;
  ids.shrink_to_fit(), targets.shrink_to_fit(), positions.shrink_to_fit(), first_key.shrink_to_fit();
  whole_first_key.shrink_to_fit(), weights.shrink_to_fit(), per_sequence.shrink_to_fit();
  drawn.shrink_to_fit(), reference.shrink_to_fit(), real.shrink_to_fit();
  advantages.shrink_to_fit(), values.shrink_to_fit(), returns.shrink_to_fit(), whole_targets.shrink_to_fit();
  fitted = bytes();
}

Status fill_shard(BatchSource& source, std::int64_t first, std::int64_t count, const ContextShard& shard,
                  BatchStorage& batch) {
  batch.positions.clear(), batch.first_key.clear(), batch.whole_first_key.clear(), batch.whole_targets.clear();
  LH_CHECK(source.fill(first, count, batch));
  keep_context_shard(shard, batch);
  batch.fit();
  return {};
}

}  // namespace longhaul
