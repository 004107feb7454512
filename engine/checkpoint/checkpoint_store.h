// Checkpoints of one training, in one folder (contracts/checkpoint_format.h): written by all ranks together, each its
// share, whole or absent; the newest good one is found again, a damaged one is named and passed over.
//
// Now saving is synchronous: the step waits. What would run in the background (write_share) only reads the arrays it is
// given, so a copy of them is all that a writer thread needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contracts/checkpoint_format.h"
#include "engine/checkpoint/training_state.h"
#include "engine/parallel/collective_group.h"

namespace longhaul {

struct SavedCheckpoint {
  std::string path;
  std::uint64_t bytes = 0;  // of all ranks
  double seconds = 0;       // that the training stood still
};

struct LoadedCheckpoint {
  std::string path;
  std::vector<std::string> passed_over;  // damaged newer ones: what is wrong with each
};

class CheckpointStore {
 public:
  CheckpointStore(const Clock& clock, std::string folder, int keep_last)
      : clock_(clock), folder_(std::move(folder)), keep_last_(keep_last) {}

  // Collective. Everything is synced before checkpoint.json appears; on an error nothing that was there is lost.
  Result<SavedCheckpoint> save(CollectiveGroup& group, const TrainingState& state);

  // Collective. Fills the state's arrays, progress, seed and extra from the newest whole checkpoint of this model's
  // shape; nullopt if there is none at all. Damaged ones are passed over; if no good one is left the error names them
  // all.
  Result<std::optional<LoadedCheckpoint>> load_newest(CollectiveGroup& group, TrainingState& state) const;
  // One checkpoint, verified entry by entry. Not collective.
  static Status load(const std::string& path, TrainingState& state);

  // Folder names that hold a checkpoint.json, newest first.
  std::vector<std::string> list() const;

 private:
  Status prepare(const std::string& path) const;
  void retire(std::int64_t newest_step) const;

  const Clock& clock_;
  std::string folder_;
  int keep_last_;
};

}  // namespace longhaul
