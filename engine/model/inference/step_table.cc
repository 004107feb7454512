#include "engine/model/inference/step_table.h"

#include <algorithm>
#include <bit>

#include "engine/core/tensor/transfer.h"

namespace longhaul {
namespace {

std::vector<KvPlace> places_of(std::span<const SequenceStep> steps, int layers) {
  std::vector<KvPlace> places;
  for (int layer = 0; layer < layers; ++layer) {
    if (KvPool* pool = steps.front().cache->pool()) {
      places.push_back({static_cast<std::byte*>(pool->keys(layer).data()),
                        static_cast<std::byte*>(pool->values(layer).data()), pool->pages() * kKvPageTokens});
      continue;
    }
    for (const SequenceStep& step : steps)
      places.push_back({static_cast<std::byte*>(step.cache->keys(layer).data()),
                        static_cast<std::byte*>(step.cache->values(layer).data()),
                        step.cache->length() + static_cast<std::int64_t>(step.tokens.size())});
  }
  return places;
}

}  // namespace

std::int64_t tokens_ahead(std::span<const SequenceStep> steps, std::size_t step) {
  std::int64_t tokens = 0;
  for (std::size_t i = step; i > 0 && steps[i - 1].cache == steps[step].cache; --i)
    tokens += static_cast<std::int64_t>(steps[i - 1].tokens.size());
  return tokens;
}

void hold_room(std::span<const SequenceStep> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    steps[i].cache->hold(tokens_ahead(steps, i) + static_cast<std::int64_t>(steps[i].tokens.size()));
}

std::int64_t decode_room(std::int64_t longest) {
  constexpr std::int64_t least = 256;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(longest, least))));
}

void StepTable::take(std::int64_t bytes, MemoryAccount* memory) {
  if (placed_.size() >= bytes) return;
  placed_ = Tensor();
  placed_ = Tensor(DType::i8, {bytes}, memory);
}

void StepTable::reserve(std::int64_t sequences, std::int64_t tokens, std::int64_t longest, int layers,
                        MemoryAccount* memory) {
  const auto of_sequence =
      static_cast<std::int64_t>(sizeof(SampleRow)) + 4 * (1 + KvPool::pages_for(decode_room(longest)));
  take(layers * static_cast<std::int64_t>(sizeof(KvPlace)) + sequences * of_sequence + 4 * 4 * tokens, memory);
}

void StepTable::fill(const ComputeContext& context, std::span<const SequenceStep> steps,
                     std::span<const SampleRow> draws, int layers, MemoryAccount* memory, const RowsHere& here) {
  layers_ = layers, tokens_ = 0, longest_ = 0, draws_ = static_cast<std::int64_t>(draws.size());
  in_pages_ = steps.front().cache->pool() != nullptr;
  begins_.clear();
  std::vector<std::int32_t> ids, positions, places, rows, lengths;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const SequenceStep& step = steps[i];
    begins_.push_back(tokens_);
    const std::int64_t before = step.cache->length() + tokens_ahead(steps, i),
                       count = static_cast<std::int64_t>(step.tokens.size());
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t position = before + t;
      const std::int64_t row = step.tokens[static_cast<std::size_t>(t)] - here.first;
      ids.push_back(row >= 0 && row < here.count ? static_cast<std::int32_t>(row) : -1);
      positions.push_back(static_cast<std::int32_t>(position));
      places.push_back(in_pages_ ? 0 : static_cast<std::int32_t>(begins_.size()) - 1);
      if (!in_pages_) continue;
      const std::int32_t page = step.cache->pages()[static_cast<std::size_t>(position / kKvPageTokens)];
      rows.push_back(static_cast<std::int32_t>(page * kKvPageTokens + position % kKvPageTokens));
    }
    tokens_ += count;
    longest_ = std::max(longest_, before + count);
    if (in_pages_) lengths.push_back(static_cast<std::int32_t>(before + count));
  }
  std::vector<std::int32_t> pages(lengths.size() * static_cast<std::size_t>(pages_each()));
  for (std::size_t i = 0; i < lengths.size(); ++i)
    std::copy(steps[i].cache->pages().begin(), steps[i].cache->pages().end(),
              pages.begin() + static_cast<std::ptrdiff_t>(i) * pages_each());
  packed_.clear();
  const auto pack = [&](const auto& values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    packed_.insert(packed_.end(), bytes, bytes + values.size() * sizeof(values[0]));
  };
  pack(places_of(steps, layers)), pack(draws);
  pack(ids), pack(positions), pack(places), pack(rows), pack(pages), pack(lengths);
  const auto bytes = static_cast<std::int64_t>(packed_.size());
  take(bytes, memory);
  copy_in(context, ConstView(packed_.data(), DType::i8, Shape{bytes}), placed_.view().rows(0, bytes));
}

std::span<const KvPlace> StepTable::places(int layer) const {
  const auto* all = static_cast<const KvPlace*>(placed_.view().data());
  const std::int64_t each = place_count() / layers_;
  return {all + layer * each, static_cast<std::size_t>(each)};
}

std::span<SampleRow> StepTable::draws() {
  auto* behind = static_cast<KvPlace*>(placed_.view().data()) + place_count();
  return {reinterpret_cast<SampleRow*>(behind), static_cast<std::size_t>(draws_)};
}

std::span<const std::int32_t> StepTable::numbers(int which) const {
  const auto* behind = static_cast<const std::byte*>(placed_.view().data()) +
                       place_count() * static_cast<std::int64_t>(sizeof(KvPlace)) +
                       draws_ * static_cast<std::int64_t>(sizeof(SampleRow));
  return {reinterpret_cast<const std::int32_t*>(behind) + which * tokens_, static_cast<std::size_t>(tokens_)};
}

std::span<const std::int32_t> StepTable::pages(std::size_t begin, std::size_t count) const {
  const auto each = static_cast<std::size_t>(pages_each());
  return {behind_numbers() + begin * each, count * each};
}

std::span<const std::int32_t> StepTable::lengths(std::size_t begin, std::size_t count) const {
  return {behind_numbers() + sequences() * pages_each() + begin, count};
}

}  // namespace longhaul
