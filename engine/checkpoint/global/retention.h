// Which checkpoints of a training stay. One is kept if any of the rules says so, or if it is not known whether one
// does: what the file system does not answer about is not removed. A damaged one keeps no place in the rules.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "contracts/records/checkpoint_format.h"

namespace longhaul {

struct RetentionPolicy {
  int keep_last = 2;            // the newest n
  std::int64_t keep_every = 0;  // every one whose step is a multiple of it; 0: none for that
  int keep_best = 0;            // n with the smallest held-out loss, or training loss where none has a held-out one
};

// Members of a checkpoint's `extra` that keep_best reads; both optional.
inline constexpr const char* checkpoint_loss_key = "loss";
inline constexpr const char* checkpoint_heldout_loss_key = "heldout_loss";

struct CheckpointStanding {
  std::string name;  // of the folder
  std::int64_t step = 0;
  bool held = false;  // pinned, being read, or in doubt
  std::optional<double> loss, heldout_loss;
};
// `newest_first` are whole checkpoints; the names of those that may go.
std::vector<std::string> checkpoints_to_remove(const std::vector<CheckpointStanding>& newest_first,
                                               const RetentionPolicy& policy);
// Whether others read a checkpoint now, by the files that they touch in its folder (ReadClaim). What one looks like is
// compared with the look before, by the clock of the one who looks: no time of another host takes part, and a reader
// that has died holds a checkpoint for as long as this one has seen no change for. One thread.
class ReadClaims {
 public:
  explicit ReadClaims(const Clock& clock) : clock_(clock) {}
  // `names`: of the files in `folder`. True in doubt.
  bool hold(const std::string& folder, const std::vector<std::string>& names);

  static constexpr std::int64_t unchanged_ms = 3'600'000;  // then nobody reads any more

 private:
  struct Seen {
    std::int64_t stamp = 0;     // the file's time of change, as its server says it
    std::int64_t since_ns = 0;  // that it was first seen, by this clock
  };
  const Clock& clock_;
  std::map<std::string, Seen> seen_;  // by path
};

// What the rules ask of one checkpoint's folder, in which `names` are. The manifest is read only where keep_best needs
// it.
CheckpointStanding standing_of(const std::string& folder, const std::vector<std::string>& names,
                               const RetentionPolicy& policy, ReadClaims& claims);

// By a file checkpoint_pin_name in its folder.
bool is_pinned_checkpoint(const std::string& folder);

// Keeps a checkpoint from being removed while it lives: a file reading.<host>.<pid>.<n> in its folder, touched again
// and again by a thread of its own. Best effort: in a folder that cannot be written nothing is claimed.
class ReadClaim {
 public:
  static constexpr std::int64_t touched_every_ms = 60'000;

  explicit ReadClaim(const std::string& folder, std::int64_t every_ms = touched_every_ms);
  ~ReadClaim();
  ReadClaim(const ReadClaim&) = delete;
  ReadClaim& operator=(const ReadClaim&) = delete;

 private:
  std::string path_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  std::thread touching_;
};

Result<CheckpointManifest> read_checkpoint_manifest(const std::string& folder);

}  // namespace longhaul
