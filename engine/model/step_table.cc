#include "engine/model/step_table.h"

#include <algorithm>
#include <cstring>

#include "engine/core/transfer.h"

namespace longhaul {

void StepTable::fill(const ComputeContext& context, std::span<const SequenceStep> steps,
                     std::span<const SampleRow> draws, int layers, MemoryAccount* memory) {
  layers_ = layers, tokens_ = 0, longest_ = 0, draws_ = static_cast<std::int64_t>(draws.size());
  begins_.clear();
  std::vector<std::int32_t> ids, positions, sequences;
  for (const SequenceStep& step : steps) {
    begins_.push_back(tokens_);
    const std::int64_t before = step.cache->length(), count = static_cast<std::int64_t>(step.tokens.size());
    for (std::int64_t t = 0; t < count; ++t) {
      ids.push_back(step.tokens[static_cast<std::size_t>(t)]);
      positions.push_back(static_cast<std::int32_t>(before + t));
      sequences.push_back(static_cast<std::int32_t>(begins_.size()) - 1);
    }
    tokens_ += count;
    longest_ = std::max(longest_, before + count);
  }
  std::vector<KvPlace> places;
  for (int layer = 0; layer < layers; ++layer)
    for (const SequenceStep& step : steps)
      places.push_back({static_cast<std::byte*>(step.cache->keys(layer).data()),
                        static_cast<std::byte*>(step.cache->values(layer).data()),
                        step.cache->length() + static_cast<std::int64_t>(step.tokens.size())});
  packed_.clear();
  const auto pack = [&](const auto& values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    packed_.insert(packed_.end(), bytes, bytes + values.size() * sizeof(values[0]));
  };
  pack(places), pack(draws), pack(ids), pack(positions), pack(sequences);
  const auto bytes = static_cast<std::int64_t>(packed_.size());
  if (placed_.size() < bytes) {
    placed_ = Tensor();
    placed_ = Tensor(DType::i8, {bytes}, memory);
  }
  copy_in(context, ConstView(packed_.data(), DType::i8, Shape{bytes}), placed_.view().rows(0, bytes));
}

std::span<const KvPlace> StepTable::places(int layer) const {
  const auto* all = static_cast<const KvPlace*>(placed_.view().data());
  return {all + layer * sequences(), static_cast<std::size_t>(sequences())};
}

std::span<SampleRow> StepTable::draws() {
  auto* behind = static_cast<KvPlace*>(placed_.view().data()) + layers_ * sequences();
  return {reinterpret_cast<SampleRow*>(behind), static_cast<std::size_t>(draws_)};
}

std::span<const std::int32_t> StepTable::numbers(int which) const {
  const auto* behind = static_cast<const std::byte*>(placed_.view().data()) +
                       layers_ * sequences() * static_cast<std::int64_t>(sizeof(KvPlace)) +
                       draws_ * static_cast<std::int64_t>(sizeof(SampleRow));
  return {reinterpret_cast<const std::int32_t*>(behind) + which * tokens_, static_cast<std::size_t>(tokens_)};
}

}  // namespace longhaul
