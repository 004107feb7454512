// Where the tokens of a stage lie, and the samples in them as batches.
#pragma once

#include <memory>

#include "engine/data/samples/instruct_data.h"
#include "engine/data/samples/sampler.h"
#include "engine/data/template/chat.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

// How documents share a sequence.
struct DocumentRules {
  bool mask = false;             // attention stays inside a document, whose last token predicts nothing
  bool reset_positions = false;  // positions begin again with each
};

// What one phase of a training reads: from its first sample on, in an order of its own.
struct PhaseSamples {
  std::int64_t first_step = 1;
  std::int64_t first_sample = 0;  // of the training's order: sample 0 of `samples`
  std::shared_ptr<const SampleSource> samples;
};

// Samples of token files, as pretraining reads them.
class TokenSource final : public BatchSource {
 public:
  explicit TokenSource(std::shared_ptr<const SampleSource> samples)
      : TokenSource({PhaseSamples{1, 0, std::move(samples)}}, {}) {}
  // phases: at least one, ascending.
  TokenSource(std::vector<PhaseSamples> phases, const DocumentRules& documents)
      : phases_(std::move(phases)), documents_(documents) {}
  // Windows of one dataset. `prefix`: path without .bin/.idx.
  static Result<TokenSource> open(const std::string& prefix, std::int64_t sequence_length, std::uint64_t seed,
                                  SampleOrder order, const DocumentRules& documents);
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  void begin_step(std::int64_t step, std::int64_t left_out) override;
  // Of the phase.
  std::int64_t samples_per_epoch() const override { return phase().samples->samples_per_epoch(); }

 private:
  const PhaseSamples& phase() const { return phases_[phase_]; }

  std::vector<PhaseSamples> phases_;
  DocumentRules documents_;
  std::size_t phase_ = 0;      // the one of the step
  std::int64_t left_out_ = 0;  // before the step
};

// Tokenized examples, padded to the longest of a micro-batch; loss on what their masks say.
class ExampleSource final : public BatchSource {
 public:
  ExampleSource(std::vector<ChatTokens> examples, std::int64_t sequence_length, std::uint64_t seed, SampleOrder order)
      : examples_(std::move(examples)), sequence_length_(sequence_length), seed_(seed), order_(order) {}
  // From now on a sample is a row of sequence_length tokens with several examples, each of which sees itself alone and
  // has positions of its own: every token has the loss that it has without. The rows are the same in every epoch, their
  // order is not.
  void pack();
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override {
    return static_cast<std::int64_t>(rows_.empty() ? examples_.size() : rows_.size());
  }

 private:
  void fill_packed(std::int64_t first, std::int64_t count, BatchStorage& out) const;

  std::vector<std::vector<std::int32_t>> rows_;  // packed: examples of each sample
  std::vector<ChatTokens> examples_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

// Preference pairs, each as two neighbouring sequences, with the reference's log-probabilities.
class PairSource final : public BatchSource {
 public:
  // references: chosen and rejected of each pair, in order. before: as of fill_examples().
  PairSource(std::vector<PreferencePair> pairs, std::vector<double> references, std::int64_t sequence_length,
             std::uint64_t seed, SampleOrder order, std::vector<std::int32_t> before = {})
      : pairs_(std::move(pairs)),
        references_(std::move(references)),
        before_(std::move(before)),
        sequence_length_(sequence_length),
        seed_(seed),
        order_(order) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(pairs_.size()); }

 private:
  std::vector<PreferencePair> pairs_;
  std::vector<double> references_;
  std::vector<std::int32_t> before_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

// A row for each, padded to the longest or a little more, at most sequence_length. Borrowed. `before`: ids that stand
// before each of them, count in its length and have no loss (virtual_token_ids); nor has its first token, as without
// them.
void fill_examples(std::span<const ChatTokens* const> examples, std::int64_t sequence_length, BatchStorage& out,
                   std::span<const std::int32_t> before = {});

// A file, or the first of `names` that a folder holds; the error lists what was looked for.
Result<std::string> find_data_file(const std::string& path, const std::vector<std::string>& names);

}  // namespace longhaul
