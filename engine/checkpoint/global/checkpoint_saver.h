// Saves checkpoints while the training goes on. A save copies this rank's share into staging memory; a thread of the
// saver hashes it, writes the shard and syncs it. Only the training's thread speaks with other ranks: it asks ready()
// after each step, the ranks agree on it with whatever else they exchange, and when all are ready advance() collects
// the votes (every rank's entries) and has the first rank publish the checkpoint, again in its background.
//
//   saver.start(group, state)              what is blocked: one copy of the share
//   ... steps; all ranks ready() ...
//   saver.advance(group)                   votes; the first rank's thread writes checkpoint.json and `latest`
//   ... steps; all ranks ready() ...
//   saver.advance(group)                   the checkpoint is whole
//
// One per rank; its methods belong to one thread. Without `asynchronous`, or where the staging memory is not to be had,
// start() writes the shard itself and the rest follows in the same way.
//
// A wait for the disk has no length of its own, for nobody knows how slow a file system will be: while a rank waits,
// all of them exchange once a second how much they have written, and it is an error only when none of them has
// written anything for `still_ms`. Nobody waits in a collective for longer than such a round.
//
// What lies on a device is copied into pinned memory by a queue of its own while the training goes on: start() only
// asks for it, and finish_copy() must come before the next change of what is saved.
#pragma once

#include <atomic>
#include <functional>

#include "contracts/control/control_times.h"
#include "engine/checkpoint/global/background_job.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/checkpoint/global/share_staging.h"

namespace longhaul {

struct CheckpointSaverOptions {
  bool asynchronous = true;
  bool direct_io = false;
  std::int64_t staging_bytes_max = 0;      // 0: as much as one share needs
  std::int64_t deadline_ms = 600'000;      // of the device's copy
  std::int64_t still_ms = write_still_ms;  // the longest time without a byte that is no error
  // While the training's thread waits for a write, and before it writes itself: all bytes that this rank has written so
  // far, some times a second. May be null.
  std::function<void(std::int64_t bytes)> on_writing;
  const ComputeContext* compute = nullptr;  // threads for the copy, the device; null: one, and none
  MemoryAccount* account = nullptr;         // of the staging memory
};

class CheckpointSaver {
 public:
  // All borrowed.
  CheckpointSaver(const Clock& clock, const CheckpointStore& store, const CheckpointSaverOptions& options)
      : clock_(clock), store_(store), options_(options), staging_(options.compute, options.account) {}
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Takes the staging memory for shares of this training now, not at the first save. Says why there is none (ErrorCode
  // unavailable); saving works all the same, but the training then waits for the disk.
  Status reserve(const ParameterLayout& layout, const StateTypes& types = all_f32);

  bool busy() const { return phase_ != Phase::idle; }
  std::int64_t step() const { return saved_.step; }  // of the last one that was started
  // That one, whole by now, stays whatever the rules of retention say. Done by the first rank.
  Status pin(CollectiveGroup& group) const;
  const std::string& votes() const { return votes_; }  // this rank's entries of the last one that was written, as text
  // How far this rank is, for comparison with others: -1 when nothing is under way.
  std::int64_t progress_key() const { return busy() ? 4 * saved_.step + static_cast<std::int64_t>(phase_) : -1; }
  // Has this rank done all it can do before the next advance()? True when nothing is under way.
  bool ready();
  // Masters and moments may change when this comes back: a device has copied them. One that has not within the deadline
  // ends the process. Nothing to do most of the time.
  void finish_copy();

  // Collective; nothing may be under way.
  Status start(CollectiveGroup& group, const TrainingState& state);
  // Collective, when every rank is ready and busy. A value when the checkpoint is whole. After an error nothing is
  // under way any more, and what was there before is still there.
  Result<std::optional<SavedCheckpoint>> advance(CollectiveGroup& group);
  // Collective: what is under way is waited for. An error of that wait (a collective's, or ErrorCode::timeout: nothing
  // is written any more) leaves it under way: whoever gets over it finds it so (TrainingSaves::settle).
  Result<SavedCheckpoint> finish(CollectiveGroup& group);
  // Not collective: what is under way is not waited for by others any more. It may yet be whole, where its manifest was
  // being written; else it is half a checkpoint, as of a rank that was killed. Waits for this rank's own thread only.
  Status give_up(std::int64_t deadline_ms);

 private:
  enum class Phase { idle, writing, publishing };
  class StallTimer;
  void wait_for_copy();
  void begin_to_write(const TrainingState& state);
  Status write(const TrainingState& state, bool staged, const std::atomic<bool>& cancelled);
  Result<WrittenShare> write_from_state(const TrainingState& state, const ShardWriteOptions& options);
  Status collect_votes(CollectiveGroup& group);
  Status wait_together(CollectiveGroup& group);
  void report_writing() const {
    if (options_.on_writing) options_.on_writing(bytes_.load(std::memory_order_relaxed));
  }
  std::string context() const { return "checkpoint " + saved_.path; }

  const Clock& clock_;
  const CheckpointStore& store_;
  CheckpointSaverOptions options_;
  Phase phase_ = Phase::idle;
  SavedCheckpoint saved_;
  std::string file_;  // this rank's shard
  ShareStaging staging_;
  std::vector<SharePiece> pieces_;
  CheckpointManifest manifest_;
  // The job's until it is done.
  WrittenShare written_;
  std::string votes_;
  CheckpointStore::Published published_;
  double write_seconds_ = 0;
  std::atomic<std::int64_t> bytes_{0};  // written, of all saves
  BackgroundJob job_{true};             // last: its thread ends before what it works on
};

}  // namespace longhaul
