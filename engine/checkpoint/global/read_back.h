// A checkpoint is read back whole before an older one is removed for it: every rank reads the shard of another one
// (rank
// + ranks / 2; of one rank its own), from the file system and not from what this node still has in memory where the
// system can be asked for that, and holds each entry against the digest that its writer has computed. When all have
// read well, the first rank writes a file `verified` with the digest of the manifest beside it, and what the rules of
// retention let go is removed. In the background, at low priority; only training threads speak with other ranks:
//
//   read_back.want(group, saved, votes)    a checkpoint is whole
//   ... steps; all ranks ready() ...
//   read_back.advance(group)               again until it is idle
//
// Most of the time one that stays was read back before, and nothing has to be read.
#pragma once

#include <optional>

#include "engine/checkpoint/global/background_job.h"
#include "engine/checkpoint/global/checkpoint_store.h"

namespace longhaul {

// Every entry of a shard in `folder` against its digest.
Status read_shard_back(const std::string& folder, const std::vector<CheckpointEntry>& entries,
                       const std::atomic<bool>& cancelled);

// One that has come to its end, on all ranks the same but for `seconds` and `bytes`, which are this rank's.
struct ReadBack {
  std::int64_t step = 0;
  std::string path;
  std::string damage;  // what is wrong with it: nothing was removed; "": all is well
  double seconds = 0;
  std::int64_t bytes = 0;
};

class CheckpointReadBack {
 public:
  CheckpointReadBack(const Clock& clock, const CheckpointStore& store) : clock_(clock), store_(store) {}

  bool busy() const { return phase_ != Phase::idle; }
  // Has this rank done all it can do before the next advance()? True when nothing is under way.
  bool ready() const { return job_.done(); }

  // Collective. A checkpoint is whole: it is read back if something waits for that (SavedCheckpoint::waits on the first
  // rank), after the one that is being read; of several that wait the newest. `votes`: this rank's entries.
  Status want(CollectiveGroup& group, const SavedCheckpoint& saved, const std::string& votes);
  // Collective, when every rank is ready and busy. A value when one has come to its end.
  Result<std::optional<ReadBack>> advance(CollectiveGroup& group);
  // Collective: whatever waits is read. What was found of each.
  Result<std::vector<ReadBack>> finish(CollectiveGroup& group, std::int64_t deadline_ms = 3'600'000);
  // Not collective: what is under way is forgotten; what it was for stays until the next.
  Status give_up(std::int64_t deadline_ms);

 private:
  enum class Phase { idle, reading, confirming };
  struct Wanted {
    std::int64_t step = 0;
    std::string path;
    std::vector<CheckpointEntry> entries;  // that this rank reads
  };
  void start(Wanted wanted);

  const Clock& clock_;
  const CheckpointStore& store_;
  Phase phase_ = Phase::idle;
  std::optional<Wanted> next_;
  ReadBack now_;
  std::vector<CheckpointEntry> entries_;
  BackgroundJob job_{true};  // last: its thread ends before what it works on
};

}  // namespace longhaul
