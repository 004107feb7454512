// Megatron-LM's order of samples for GPT training, bit for bit: with the same token files, seed, sequence length and
// number of samples, sample k holds the same tokens as there (GPTDataset with its default split of the whole file). For
// going on with a training that began in Megatron-LM; a new one is better off with Sampler, whose order needs no memory
// and does not change with the length of the training.
//
// Three arrays are built once, from the lengths of the sequences alone:
//   epochs     the fewest passes over the data that hold samples * s + 1 tokens
//   documents  all sequences, `epochs` times, shuffled: laid end to end, that is the stream of the training
//   samples    where in it each sample begins: sample j at token j * s, reading s + 1 tokens, so that neighbours share
//              one; n = (epochs * tokens - 1) / s of them
//   shuffle    the order in which they are taken: global sample k is sample shuffle[k]
// When the last pass is needed for less than 80 % of its samples it stays apart: its documents are shuffled among
// themselves and lie at the end, and so do the samples that only it provides. Random numbers are drawn from one
// NumpyRandomState(seed): first for documents, then for shuffle.
//
// Memory: 4 bytes per document and epoch, 12 + 4 bytes per sample.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/files/indexed_dataset.h"
#include "engine/data/samples/sample_source.h"

namespace longhaul {

struct MegatronIndex {
  std::int64_t epochs = 0;
  bool last_epoch_apart = false;
  std::vector<std::int32_t> documents;
  // The beginning of sample j; one entry more than there are samples.
  std::vector<std::int32_t> sample_document;  // position in `documents`
  std::vector<std::int64_t> sample_offset;    // token in that document
  std::vector<std::uint32_t> shuffle;

  std::int64_t samples() const { return static_cast<std::int64_t>(shuffle.size()); }
};

// lengths: tokens of each sequence; `samples` > 0: how many the training takes; seed in [0, 2^32). ErrorCode::
// invalid_input where they hold less than one sample, ErrorCode::unsupported beyond the original's index types.
Result<MegatronIndex> build_megatron_index(std::span<const std::int32_t> lengths, std::int64_t sequence_length,
                                           std::int64_t samples, std::uint64_t seed);

class MegatronSampler final : public SampleSource {
 public:
  // `samples`: how many the training takes in all; another number is another order. `name` stands in errors.
  static Result<MegatronSampler> create(std::shared_ptr<const IndexedDataset> dataset, std::int64_t sequence_length,
                                        std::uint64_t seed, std::int64_t samples, const std::string& name);

  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t samples_per_epoch() const override { return (dataset_->tokens() - 1) / sequence_length_; }
  std::int64_t size() const override { return index_.samples(); }
  void read(std::int64_t k, std::span<std::int32_t> out) const override;
  void document_begins(std::int64_t k, std::span<std::int32_t> out) const override;
  const MegatronIndex& index() const { return index_; }

 private:
  MegatronSampler() = default;
  // Runs of tokens of one document that make up sample k: where in the sample, which token of the dataset, how many.
  using Piece = std::function<void(std::int64_t at, std::int64_t token, std::int64_t count)>;
  void for_each_piece(std::int64_t k, const Piece& use) const;
  std::shared_ptr<const IndexedDataset> dataset_;
  std::int64_t sequence_length_ = 0;
  MegatronIndex index_;
};

}  // namespace longhaul
