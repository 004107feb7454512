// log/<epoch>.jsonl: one file per controller, written by nobody else. A controller claims the next epoch by creating
// its log exclusively, reads all earlier ones, and states with its first fact (`adopted`) how many bytes of each it
// believes.
//
// Why this suffices without locks: an older controller writes and syncs its intent, then looks whether a later epoch
// exists, and acts only if not. If it acted, the intent was there before the later log was created, so the later
// controller has read it. If it did not act, its intent may come after what was read; `adopted` makes every later
// reader ignore it, too. What a stopped controller adds to its log after that changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "orchestrator/state/fact.h"

namespace longhaul {

struct EpochRead {
  std::vector<Fact> facts;                        // in order of epoch and line; only what later epochs adopted
  std::map<std::int64_t, std::uint64_t> lengths;  // bytes believed, per epoch
  std::int64_t newest = 0;                        // epoch; 0: no log yet
  bool torn = false;                              // the newest log ends within a line
};
// corrupt: a line before the last is damaged (file and line are named); a torn last line was never acted upon and is
// skipped.
Result<EpochRead> read_epochs(const std::string& run_dir);
// 0 if there is none. Cheap: one listing.
Result<std::int64_t> newest_epoch(const std::string& run_dir);

class EpochLog {
 public:
  // Claims the next epoch. `facts` receives everything believed so far, the new epoch's first lines included.
  static Result<EpochLog> claim(const std::string& run_dir, const Clock& clock, std::vector<Fact>& facts);
  // Goes on with an epoch claimed by this process before; conflict: a later one exists, or its log is torn.
  static Result<EpochLog> reopen(const std::string& run_dir, std::int64_t epoch, std::vector<Fact>& facts);

  std::int64_t epoch() const { return epoch_; }
  // Stamps and appends all with one sync. After an error this log must not be appended to again.
  Status append(std::vector<Fact>& facts, const Clock& clock) const;
  // conflict if a later epoch exists.
  Status check_newest() const;

 private:
  EpochLog(std::string run_dir, std::int64_t epoch) : run_dir_(std::move(run_dir)), epoch_(epoch) {}
  std::string run_dir_;
  std::int64_t epoch_;
};

}  // namespace longhaul
