// Where the tokens of a stage lie, and the samples in them as batches.
#pragma once

#include <memory>

#include "engine/data/chat.h"
#include "engine/data/instruct_data.h"
#include "engine/data/sampler.h"
#include "engine/train/batch_source.h"

namespace longhaul {

// Samples of token files, as pretraining reads them.
class TokenSource final : public BatchSource {
 public:
  explicit TokenSource(std::shared_ptr<const SampleSource> samples) : samples_(std::move(samples)) {}
  // Windows of one dataset. `prefix`: path without .bin/.idx.
  static Result<TokenSource> open(const std::string& prefix, std::int64_t sequence_length, std::uint64_t seed,
                                  SampleOrder order);
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return samples_->samples_per_epoch(); }

 private:
  std::shared_ptr<const SampleSource> samples_;
};

// Tokenized examples, padded to the longest of a micro-batch; loss on what their masks say.
class ExampleSource final : public BatchSource {
 public:
  ExampleSource(std::vector<ChatTokens> examples, std::int64_t sequence_length, std::uint64_t seed, SampleOrder order)
      : examples_(std::move(examples)), sequence_length_(sequence_length), seed_(seed), order_(order) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(examples_.size()); }

 private:
  std::vector<ChatTokens> examples_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

// Preference pairs, each as two neighbouring sequences, with the reference's log-probabilities.
class PairSource final : public BatchSource {
 public:
  // references: chosen and rejected of each pair, in order.
  PairSource(std::vector<PreferencePair> pairs, std::vector<double> references, std::int64_t sequence_length,
             std::uint64_t seed, SampleOrder order)
      : pairs_(std::move(pairs)),
        references_(std::move(references)),
        sequence_length_(sequence_length),
        seed_(seed),
        order_(order) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(pairs_.size()); }

 private:
  std::vector<PreferencePair> pairs_;
  std::vector<double> references_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

// A file, or the first of `names` that a folder holds; the error lists what was looked for.
Result<std::string> find_data_file(const std::string& path, const std::vector<std::string>& names);

}  // namespace longhaul
