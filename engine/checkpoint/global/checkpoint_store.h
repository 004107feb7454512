// Room engine/checkpoint/global
// Checkpoints of a training on the shared file system, written by all ranks together, whole or absent.
// checkpoint_store.h saves and finds, checkpoint_load.h reads one; checkpoint_saver.h saves while training goes on.
// checkpoint_share.h says what each rank writes, read_back.h verifies it, retention.h says what may be deleted.
// It does not know the copies on nodes: engine/checkpoint/local lies above and chooses between both.
//
// Checkpoints of one training, in one folder (contracts/records/checkpoint_format.h): written by all ranks together,
// each its share, whole or absent; the newest good one is found again, a damaged one is named and passed over. Saving
// while the training goes on: checkpoint_saver.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/file_retry.h"
#include "base/system/clock.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/state_owner.h"
#include "engine/checkpoint/global/retention.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

struct SavedCheckpoint {
  std::string path;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;   // of all ranks; on other ranks than the first, their own
  double seconds = 0;        // that the training stood still
  double write_seconds = 0;  // to hash, write and sync this rank's shard
  bool staged = false;       // copied, and written while the training went on
  bool direct_io = false;    // asked for, and possible there
  bool waits = false;        // on the first rank: older ones stay until a newer one was read back (read_back.h)
};

struct LoadedCheckpoint {
  std::string path;
  std::vector<std::string> passed_over;  // damaged newer ones: what is wrong with each
};

// Not damaged, but of another model, or ranks do not answer: no other checkpoint is tried.
bool ends_a_search(const Error& error);

class CheckpointStore {
 public:
  CheckpointStore(const Clock& clock, std::string folder, const RetentionPolicy& retention)
      : clock_(clock), folder_(std::move(folder)), retention_(retention), claims_(clock) {}
  CheckpointStore(const Clock& clock, std::string folder, int keep_last)
      : CheckpointStore(clock, std::move(folder), RetentionPolicy{keep_last}) {}

  // Collective: the training waits, also for what is read back. Everything is synced before checkpoint.json appears; on
  // an error nothing that was there is lost.
  Result<SavedCheckpoint> save(CollectiveGroup& group, const TrainingState& state) const;

  // Collective. Fills the state's arrays, progress, seed and extra from the newest whole checkpoint of this model's
  // shape; nullopt if there is none at all. Damaged ones are passed over; if no good one is left the error names them
  // all. `threads`: this rank's.
  Result<std::optional<LoadedCheckpoint>> load_newest(CollectiveGroup& group, TrainingState& state,
                                                      int threads = 1) const;
  // Collective: this one (checkpoint_load.h).
  Status load_together(CollectiveGroup& group, const std::string& path, TrainingState& state, int threads = 1) const;

  // Folder names that hold a checkpoint.json, newest first. What cannot be listed is asked again, and then an error:
  // only a folder that is not there has no checkpoints.
  Result<std::vector<std::string>> list() const;
  // Collective: the first rank's list counts, for a folder must not be there for one rank and not for another.
  Result<std::vector<std::string>> list_together(CollectiveGroup& group) const;
  std::string path_of(std::int64_t step) const;
  const std::string& folder() const { return folder_; }
  // How long errors of the file system are borne with.
  const FileRetry& retry() const { return retry_; }
  void set_retry(const FileRetry& retry) { retry_ = retry; }
  // Who writes here. Where a later launch owns the state, whatever would change the folder is ErrorCode::conflict.
  const StateFence& fence() const { return fence_; }
  void set_fence(StateFence fence) { fence_ = std::move(fence); }
  std::string shard_name(int rank, int ranks) const;
  // Collective: the step of the newest one that the first rank sees; -1: none.
  Result<std::int64_t> newest_step(CollectiveGroup& group) const;

  // On the first rank: checkpoints of later steps count no more, their folders are renamed to suspect-.... Returns how
  // many that were.
  Result<int> set_aside_after(std::int64_t step) const;

  // What the saver is made of. An empty folder of that path; what was there was no checkpoint, or is being written
  // again.
  Status prepare(const std::string& path) const;
  // On the first rank, any thread, once all shards are synced: the manifest with every rank's entries (`votes`,
  // entries_to_text), `latest`, and older ones removed, if one that stays was read back before.
  struct Published {
    std::int64_t bytes = 0;  // of all ranks
    bool waits = false;      // older ones stay until this one was read back
  };
  Result<Published> publish(const std::string& path, CheckpointManifest manifest,
                            const std::vector<std::string>& votes) const;
  // The same thread: all of it was read back, and has its digests. Older ones are removed.
  Status confirm(const std::string& path) const;
  // Whether it was read back since its manifest was written.
  static bool is_verified(const std::string& path);

 private:
  // step-..., as one look at it shows it.
  struct StepFolder {
    std::string name;
    Result<std::vector<std::string>> names;  // in it
    bool has(const char* file) const;
    bool is_whole() const { return has(checkpoint_manifest_name); }
  };
  Result<std::vector<StepFolder>> look() const;  // newest first; an error: the folder itself cannot be listed
  // False: something that may go stays, for no newer one that stays was read back.
  Result<bool> retire(std::int64_t newest_step) const;

  const Clock& clock_;
  std::string folder_;
  RetentionPolicy retention_;
  FileRetry retry_;
  StateFence fence_;
  mutable ReadClaims claims_;  // of the thread that publishes
};

}  // namespace longhaul
