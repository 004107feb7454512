// Which checkpoints of a training stay. One is kept if any of the rules says so; what cannot be read keeps no place in
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "contracts/checkpoint_format.h"

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
  bool held = false;  // pinned, or being read
  std::optional<double> loss, heldout_loss;
};
// `newest_first` are whole checkpoints; the names of those that may go.
std::vector<std::string> checkpoints_to_remove(const std::vector<CheckpointStanding>& newest_first,
                                               const RetentionPolicy& policy);
// What the rules ask of one checkpoint's folder. The manifest is read only where keep_best needs it.
CheckpointStanding standing_of(const Clock& clock, const std::string& folder, const RetentionPolicy& policy);

// By a file checkpoint_pin_name in its folder.
bool is_pinned_checkpoint(const std::string& folder);

// Keeps a checkpoint from being removed while it lives: a file reading.<host>.<pid>.<n> in its folder. Best effort: in
// a folder that cannot be written nothing is claimed; the claim of a reader that died ends after an hour.
class ReadClaim {
 public:
  ReadClaim(const Clock& clock, const std::string& folder);
  ~ReadClaim();
  ReadClaim(const ReadClaim&) = delete;
  ReadClaim& operator=(const ReadClaim&) = delete;

 private:
  std::string path_;
};
bool is_being_read(const Clock& clock, const std::string& folder);

Result<CheckpointManifest> read_checkpoint_manifest(const std::string& folder);

}  // namespace longhaul
