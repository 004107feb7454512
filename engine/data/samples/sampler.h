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

#include "base/error/result.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/data/samples/sample_source.h"

namespace longhaul {

enum class SampleOrder { shuffled, sequential };  // sequential: for evaluation

// ErrorCode::invalid_input if the dataset is shorter than one sample. `name` stands in that error.
Status check_holds_a_sample(const IndexedDataset& dataset, std::int64_t sequence_length, const std::string& name);

class Sampler final : public SampleSource {
 public:
  // As check_holds_a_sample.
  static Result<Sampler> create(std::shared_ptr<const IndexedDataset> dataset, std::int64_t sequence_length,
                                std::uint64_t seed, SampleOrder order, const std::string& name);

  std::int64_t samples_per_epoch() const override { return windows_; }
  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t size() const override { return endless; }
  void read(std::int64_t k, std::span<std::int32_t> out) const override;
  void document_begins(std::int64_t k, std::span<std::int32_t> out) const override;
  // First token, in the dataset's stream, of global sample k >= 0.
  std::int64_t window_begin(std::int64_t k) const;

 private:
  Sampler() = default;
  std::shared_ptr<const IndexedDataset> dataset_;
  std::int64_t sequence_length_ = 0, windows_ = 0;
  std::uint64_t seed_ = 0;
  SampleOrder order_ = SampleOrder::shuffled;
};

}  // namespace longhaul
