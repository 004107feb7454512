// What a forward pass knows of its sequences, where operations work: token ids, positions, where each layer's keys and
// values lie, and how tokens are drawn. It goes there by one copy. For the same number of tokens and sequences it lies
// at the same address, so that recorded work (Device::record) finds the next step's there.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/model/inference/cache/kv_cache.h"
#include "engine/ops/attention/kv_table.h"
#include "engine/ops/loss/sample.h"

namespace longhaul {

// One sequence's part of a forward pass; sequences of one call may have different lengths, prefill and decode mix.
// Neighbours of one token each may share a cache in pages: each then stands behind those before it and sees no later
// one, so that each has a row of logits, or a draw, of its own.
struct SequenceStep {
  KvCache* cache = nullptr;              // the tokens' keys and values are appended
  std::span<const std::int32_t> tokens;  // at least one, each in [0, vocab)
};

// Of the neighbours before a step that share its cache.
std::int64_t tokens_ahead(std::span<const SequenceStep> steps, std::size_t step);
// Each step's cache gets room for the step's tokens.
void hold_room(std::span<const SequenceStep> steps);

// The longest sequence of a pass, rounded up to a power of two, at least 256: what is as large as the longest sequence
// (page tables, recorded steps) has few sizes.
std::int64_t decode_room(std::int64_t longest);

// The ids whose rows of a table are here: others are -1 where tokens are looked up.
struct RowsHere {
  std::int64_t first = 0, count = std::numeric_limits<std::int32_t>::max();
};

class StepTable {
 public:
  // Takes memory for the largest table of so many sequences, tokens and layers, with sequences of `longest` tokens in
  // pages, so that it never moves.
  void reserve(std::int64_t sequences, std::int64_t tokens, std::int64_t longest, int layers, MemoryAccount* memory);
  // Tables for the steps, whose caches are not changed, and for the draw behind each of them, or none. Memory is the
  // account's, and the context's. Ids are places in the rows that are here.
  void fill(const ComputeContext& context, std::span<const SequenceStep> steps, std::span<const SampleRow> draws,
            int layers, MemoryAccount* memory, const RowsHere& here = {});

  std::int64_t tokens() const { return tokens_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(begins_.size()); }
  std::int64_t longest() const { return longest_; }  // of all sequences, the new tokens included
  std::int64_t room() const { return decode_room(longest_); }
  bool decodes() const { return tokens_ == sequences(); }
  std::int64_t begin(std::size_t step) const { return begins_[step]; }  // its first token
  std::int64_t end(std::size_t step) const { return step + 1 < begins_.size() ? begins_[step + 1] : tokens_; }

  // In the memory of the operations, until the next fill().
  std::span<const std::int32_t> ids() const { return numbers(0); }
  std::span<const std::int32_t> positions() const { return numbers(1); }
  // Where a token's keys and values go: row row_of_tokens()[t] of places(layer)[place_of_tokens()[t]].
  std::span<const std::int32_t> place_of_tokens() const { return numbers(2); }
  std::span<const std::int32_t> row_of_tokens() const { return numbers(in_pages_ ? 3 : 1); }
  // Of each sequence; in pages only one: the pool.
  std::span<const KvPlace> places(int layer) const;
  // In pages: of sequences [begin, begin + count), [count, pages_each()] page numbers, and how long each is with its
  // new tokens.
  std::int64_t pages_each() const { return KvPool::pages_for(room()); }
  std::span<const std::int32_t> pages(std::size_t begin, std::size_t count) const;
  std::span<const std::int32_t> lengths(std::size_t begin, std::size_t count) const;
  std::span<SampleRow> draws();  // operations move their positions on

 private:
  std::span<const std::int32_t> numbers(int which) const;
  const std::int32_t* behind_numbers() const { return numbers(in_pages_ ? 4 : 3).data(); }
  std::int64_t place_count() const { return layers_ * (in_pages_ ? 1 : sequences()); }
  void take(std::int64_t bytes, MemoryAccount* memory);

  int layers_ = 0;
  bool in_pages_ = false;
  std::int64_t tokens_ = 0, longest_ = 0, draws_ = 0;
  std::vector<std::int64_t> begins_;
  std::vector<std::byte> packed_;  // places, draws, ids, positions, places and rows of tokens, pages, lengths
  Tensor placed_;
};

}  // namespace longhaul
