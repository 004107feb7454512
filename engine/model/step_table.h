// What a forward pass knows of its sequences, where operations work: token ids, positions, where each layer's keys and
// values lie, and how tokens are drawn. It goes there by one copy. For the same number of tokens and sequences it lies
// at the same address, so that recorded work (Device::record) finds the next step's there.
#pragma once

#include <span>
#include <vector>

#include "engine/model/kv_cache.h"
#include "engine/ops/kv_table.h"
#include "engine/ops/sample.h"

namespace longhaul {

// One sequence's part of a forward pass; sequences of one call may have different lengths, prefill and decode mix.
struct SequenceStep {
  KvCache* cache = nullptr;              // the tokens' keys and values are appended
  std::span<const std::int32_t> tokens;  // at least one, each in [0, vocab)
};

class StepTable {
 public:
  // Tables for the steps, whose caches are not changed, and for the draw behind each of them, or none. Memory is the
  // account's, and the context's.
  void fill(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<const SampleRow> draws,
            int layers, MemoryAccount* memory);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(begins_.size()); }
  std::int64_t longest() const { return longest_; }  // of all sequences, the new tokens included
  bool decodes() const { return tokens_ == sequences(); }
  std::int64_t begin(std::size_t step) const { return begins_[step]; }  // its first token
  std::int64_t end(std::size_t step) const { return step + 1 < begins_.size() ? begins_[step + 1] : tokens_; }

  // In the memory of the operations, until the next fill().
  std::span<const std::int32_t> ids() const { return numbers(0); }
  std::span<const std::int32_t> positions() const { return numbers(1); }
  std::span<const std::int32_t> sequence_of_tokens() const { return numbers(2); }
  std::span<const KvPlace> places(int layer) const;
  std::span<SampleRow> draws();  // operations move their positions on

 private:
  std::span<const std::int32_t> numbers(int which) const;

  int layers_ = 0;
  std::int64_t tokens_ = 0, longest_ = 0, draws_ = 0;
  std::vector<std::int64_t> begins_;
  std::vector<std::byte> packed_;  // places of all layers, draws, then ids, positions, sequences
  Tensor placed_;
};

}  // namespace longhaul
