// Copies of a training's state on the nodes themselves, taken far more often than checkpoints: every rank writes its
// share into a folder of its node, and its partner's (rank + ranks / 2), so that the state survives the loss of a node.
// At a restart a step of which some rank still has every share is put together again, whatever the layout then is;
// where the folder lies on a memory file system (/dev/shm), that is the memory tier. Gemini (Wang et al. 2023, SOSP)
// does the same in memory.
//
//   FOLDER/longhaul-<digest>/rank-00005/step-00000240/shard-00002-of-00008.safetensors   what rank 5 keeps: rank 1's
//                                                   shard-00002-of-00008.json          share, and, written last, its
//                                                                                      part of a manifest, signed
//
// Parts are written when all shards are, and when the partner's share has the digests that its owner has computed of
// its own memory: what was changed on the way is no copy. Every part holds the same id of its save, which the first
// rank draws: shares of two launches that saved the same step are never put together.
//
// Others use the node as well: nobody else may enter the folder (mode 0700), and its name is made of the training's id,
// 128 random bits that the owner of the run alone can read, so nobody can be there first; who is all the same is passed
// over for another name.
//
// Shards and manifests have the format of checkpoints. The training waits for its copy and for the exchange with the
// partners; hashing and writing are done by a thread. A copy that fails costs nothing but itself.
#pragma once

#include "base/files/held_folder.h"
#include "engine/checkpoint/global/background_job.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/global/checkpoint_store.h"

namespace longhaul {

struct LocalCopiesOptions {
  std::string folder;  // of this node; must exist
  std::int64_t deadline_ms = 600'000;
  const ComputeContext* compute = nullptr;
  MemoryAccount* account = nullptr;
  StateFence fence = {};  // asked by the first rank, before and after: copies of a launch that was followed are none
};

class LocalCopies {
 public:
  // Collective. `state_dir`: of the training, shared by all ranks; it holds the training's id, so that what another one
  // left on a node is not taken for this one's.
  static Result<std::unique_ptr<LocalCopies>> create(const Clock& clock, CollectiveGroup& group,
                                                     const std::string& state_dir, const LocalCopiesOptions& options);

  bool busy() const { return busy_; }
  bool ready() const { return job_.done(); }

  // Collective; nothing may be under way.
  Status start(CollectiveGroup& group, const TrainingState& state);
  // Collective, when every rank is ready and busy: the outcome of all ranks. Older copies are removed; the one before
  // stays, in case this one cannot be read. After an error nothing of this copy is left on any node.
  Result<SavedCheckpoint> advance(CollectiveGroup& group);
  // Collective: what is under way is waited for.
  Result<SavedCheckpoint> finish(CollectiveGroup& group);
  std::int64_t step() const { return saved_.step; }  // of the last one that was started
  // Not collective: what is under way is given up, as if this rank had been killed. Waits for its own thread only.
  Status give_up(std::int64_t deadline_ms);

  // The same, and this rank's copies of later steps are removed: a roll-back has abandoned them (time_line.h, which
  // makes sure of it). That they are gone is best effort, for their room's sake.
  Status abandon_after(std::int64_t step, std::int64_t deadline_ms);

  // Of this training on this node. What lies there is found and loaded by local_set.h, in order with the checkpoints by
  // restart_source.h.
  const std::string& folder() const { return folder_; }
  // By which parts are signed: the training's id.
  const std::string& key() const { return key_; }

  // This rank's copies: the training is done.
  void remove() const;

 private:
  // A share in memory and where it goes.
  struct Share {
    std::vector<SharePiece> pieces;
    PageBuffer staging;
    std::string file;
    std::vector<CheckpointEntry> entries;  // of the shard, once it is written
    std::span<float> values();
  };
  LocalCopies(const Clock& clock, std::string folder, std::string key, const LocalCopiesOptions& options)
      : clock_(clock), folder_(std::move(folder)), key_(std::move(key)), options_(options) {}
  Status prepare(Share& share, const TrainingState& state, int owner, int ranks);
  Status write_shard_of(Share& share, const std::atomic<bool>& cancelled) const;
  Status write_part_of(Share& share) const;
  // Collective with the partners: the digests that this rank's share has, for those that were computed of the share
  // that came to it.
  Status compare_digests(CollectiveGroup& group);
  Status complete(CollectiveGroup& group);
  std::string own_folder(int rank) const;

  const Clock& clock_;
  std::string folder_, key_;  // of this training on this node
  HeldFolder held_;
  LocalCopiesOptions options_;
  bool busy_ = false;
  SavedCheckpoint saved_;
  double stall_seconds_ = 0;
  int rank_ = 0;
  std::string save_;  // the id of the save under way
  Share own_, partner_;
  CheckpointManifest manifest_;  // of everybody, without entries
  BackgroundJob job_{true};      // last: its thread ends before what it works on
};

}  // namespace longhaul
