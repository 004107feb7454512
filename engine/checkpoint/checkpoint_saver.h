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
#pragma once

#include "engine/checkpoint/background_job.h"
#include "engine/checkpoint/checkpoint_share.h"
#include "engine/checkpoint/checkpoint_store.h"

namespace longhaul {

struct CheckpointSaverOptions {
  bool asynchronous = true;
  bool direct_io = false;
  std::int64_t staging_bytes_max = 0;       // 0: as much as one share needs
  std::int64_t deadline_ms = 600'000;       // of every wait for the background
  const ComputeContext* compute = nullptr;  // threads for the copy; null: one
  MemoryAccount* account = nullptr;         // of the staging memory
};

class CheckpointSaver {
 public:
  // All borrowed.
  CheckpointSaver(const Clock& clock, const CheckpointStore& store, const CheckpointSaverOptions& options)
      : clock_(clock), store_(store), options_(options) {}

  // Takes the staging memory for shares of this training now, not at the first save. Says why there is none (ErrorCode
  // unavailable); saving works all the same, but the training then waits for the disk.
  Status reserve(const ParameterLayout& layout, const StateTypes& types = all_f32);

  bool busy() const { return phase_ != Phase::idle; }
  std::int64_t step() const { return saved_.step; }  // of the last one that was started
  // How far this rank is, for comparison with others: -1 when nothing is under way.
  std::int64_t progress_key() const { return busy() ? 4 * saved_.step + static_cast<std::int64_t>(phase_) : -1; }
  // Has this rank done all it can do before the next advance()? True when nothing is under way.
  bool ready() const { return job_.done(); }

  // Collective; nothing may be under way.
  Status start(CollectiveGroup& group, const TrainingState& state);
  // Collective, when every rank is ready and busy. A value when the checkpoint is whole. After an error nothing is
  // under way any more, and what was there before is still there.
  Result<std::optional<SavedCheckpoint>> advance(CollectiveGroup& group);
  // Collective: what is under way is waited for.
  Result<SavedCheckpoint> finish(CollectiveGroup& group);
  // Not collective: what is under way is not waited for by others any more. It may yet be whole, where its manifest was
  // being written; else it is half a checkpoint, as of a rank that was killed. Waits for this rank's own thread only.
  Status give_up(std::int64_t deadline_ms);

 private:
  enum class Phase { idle, writing, publishing };
  class StallTimer;
  void write(const TrainingState& state, const std::string& path);
  Status collect_votes(CollectiveGroup& group);
  std::string context() const { return "checkpoint " + saved_.path; }

  const Clock& clock_;
  const CheckpointStore& store_;
  CheckpointSaverOptions options_;
  Phase phase_ = Phase::idle;
  SavedCheckpoint saved_;
  PageBuffer staging_;
  std::vector<SharePiece> pieces_;
  CheckpointManifest manifest_;
  // The job's until it is done.
  WrittenShare written_;
  std::string votes_;
  std::int64_t published_bytes_ = 0;
  double write_seconds_ = 0;
  BackgroundJob job_{true};  // last: its thread ends before what it works on
};

}  // namespace longhaul
