// Room engine/data/samples
// Which sample comes when: one global order that depends on the seed and not on the ranks.
// sample_source.h is the contract; sampler.h, blend.h and megatron_index.h are orders; batch.h is their result.
// Rows of tuning data are read by instruct_data.h and tuning_rows.h, and packed by example_packing.h.
// It does not know which rank reads what: distribution is the trainer's, so that layouts change no sample.
//
// One global order of samples of one length. What stands behind it (windows of one dataset in a shuffled order, the
// order of another framework, a blend of several) is the implementation's business; that sample k is the same tokens
// for ever, whoever reads it, is the promise of all of them. So how many samples were consumed is the whole state of a
// training's data.
#pragma once

#include <cstdint>
#include <span>

#include "base/error/result.h"
#include "engine/data/samples/batch.h"

namespace longhaul {

inline constexpr std::int64_t endless = INT64_MAX;

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::int64_t sequence_length() const = 0;    // s, inputs of a sample
  virtual std::int64_t samples_per_epoch() const = 0;  // one pass over the data
  virtual std::int64_t size() const = 0;               // samples in all; most orders are `endless`
  // The s + 1 tokens of global sample k in [0, size()); the last s are the targets of the first s. Thread-safe.
  virtual void read(std::int64_t k, std::span<std::int32_t> out) const = 0;
  // Of the same s + 1 tokens: where in the sample the document of each begins (0 for one that began before the sample).
  virtual void document_begins(std::int64_t k, std::span<std::int32_t> out) const = 0;

  // Samples first, first + stride, ..., `count` of them; `documents`: with document_begin, and without a target for
  // the last token of a document. Thread-safe. ErrorCode::invalid_input where the order ends before.
  Result<Batch> batch(std::int64_t first, std::int64_t count, std::int64_t stride = 1, bool documents = false) const;
};

}  // namespace longhaul
