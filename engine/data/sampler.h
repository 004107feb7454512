// The order of pretraining data: one infinite sequence of samples, global to the run. Its whole state is how many
// samples were consumed; who reads which of them (dp, micro-batches) is the caller's business and changes nothing.
//
// The corpus is one stream of tokens, documents back to back. Sample j of an epoch's window list holds tokens
// [j*s, j*s + s] of it (s inputs, and the same shifted by one as targets), so windows span documents and neighbours
// share one token; an epoch has (tokens - 1) / s of them, and fewer than s tokens at the end of the corpus are left
// out. Global sample k is window permutation(k mod windows) of epoch k / windows, a new permutation per epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/data/batch.h"
#include "engine/data/indexed_dataset.h"

namespace longhaul {

enum class SampleOrder { shuffled, sequential };  // sequential: for evaluation

class Sampler {
 public:
  // ErrorCode::invalid_input if the dataset is shorter than one sample. `name` stands in that error.
  static Result<Sampler> create(std::shared_ptr<const IndexedDataset> dataset, std::int64_t sequence_length,
                                std::uint64_t seed, SampleOrder order, const std::string& name);

  std::int64_t samples_per_epoch() const { return windows_; }
  std::int64_t sequence_length() const { return sequence_length_; }
  // First token, in the dataset's stream, of global sample k >= 0.
  std::int64_t window_begin(std::int64_t k) const;

  // Samples first, first + stride, ..., `count` of them. Thread-safe.
  Result<Batch> batch(std::int64_t first, std::int64_t count, std::int64_t stride = 1) const;

 private:
  Sampler() = default;
  std::shared_ptr<const IndexedDataset> dataset_;
  std::int64_t sequence_length_ = 0, windows_ = 0;
  std::uint64_t seed_ = 0;
  SampleOrder order_ = SampleOrder::shuffled;
};

}  // namespace longhaul
