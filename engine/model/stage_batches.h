// The micro-batches of one stage as its operations find them: ids as rows of this rank's part of the vocabulary, the
// place of each token, and all of it in the memory of the slot's device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/placed_batch.h"
#include "engine/model/vocabulary_part.h"

namespace longhaul {

class StageBatches {
 public:
  struct Options {
    int slots = 1;
    std::int64_t tokens_max = 0;       // of a micro-batch whose ids are looked up here; 0: none are
    VocabularyPart vocabulary = {};    // here
    std::int64_t vocabulary_size = 0;  // of all ranks
    bool splits = false;               // the vocabulary is split over ranks
    bool positions = false;            // tokens are looked up by place as well
    bool prompt = false;               // ids behind the vocabulary are rows of a table of their own
    MemoryAccounts* memory = nullptr;  // borrowed
  };
  explicit StageBatches(const Options& options);

  // As operations find it, until the slot's next one; what the host changes or counts is done before it goes to a
  // device. The batch's own memory must stay.
  MicroBatch place(const ComputeContext& context, int slot, const MicroBatch& batch);
  // Ids as rows of this rank's part of the table, -1 for those of others. Until the next call, as what follows.
  std::span<const std::int32_t> local_ids(const MicroBatch& batch);
  // Ids behind the vocabulary as rows of their table, -1 for all others.
  std::span<const std::int32_t> prompt_rows(const MicroBatch& batch);
  // The place of each of the batch's tokens in its sequence.
  std::span<const std::int32_t> positions_of(const MicroBatch& batch);
  PlacedLosses& losses() { return losses_; }

 private:
  void count_tables();

  VocabularyPart vocabulary_;
  std::int64_t vocabulary_size_;
  bool splits_, positions_, prompt_;
  std::vector<PlacedBatch> batches_;  // of the slots
  PlacedLosses losses_;
  std::vector<std::int32_t> local_ids_, counted_, prompt_rows_;
  MemoryCharge tables_;  // these three
};

}  // namespace longhaul
