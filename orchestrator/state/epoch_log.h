// log/<epoch>.jsonl: one file per controller, written by nobody else. A controller claims the next epoch by creating
// its log exclusively, reads all earlier ones, and states with its first fact (`adopted`) how many bytes of each it
// believes.
//
// Why this suffices without locks: an older controller writes and syncs its intent, then looks whether a later epoch
// exists, and acts only if not. If it acted, the intent was there before the later log was created, so the later
// controller has read it. If it did not act, its intent may come after what was read; `adopted` makes every later
// reader ignore it, too. What a stopped controller adds to its log after that changes nothing.
//
// Weeks of ticks are thousands of epochs: `adopted` says only what is new since the `adopted` that it extends, and
// every hundred epochs all that is believed of the earlier ones is put into one file, log/<epoch>.facts, named by a
// fact with its digest. It saves readers the earlier logs, which stay, and which are read where it is gone or not as it
// was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "orchestrator/state/fact.h"

namespace longhaul {

struct EpochRead {
  std::vector<Fact> facts;                        // in order of epoch and line; only what later epochs adopted
  std::map<std::int64_t, std::uint64_t> lengths;  // bytes believed, per epoch whose log was read
  std::int64_t newest = 0;                        // epoch; 0: no log yet
  bool torn = false;                              // the newest log ends within a line, or in a hole
  std::int64_t newest_adopted = 0;                // newest epoch that says what it believes; 0: none
  std::size_t facts_before_newest = 0;            // of `facts`, those of earlier epochs than the newest
  std::int64_t appends = 0;                       // of the newest log, as far as it is whole
};
// corrupt: text that was whole once is damaged or gone (file and line are named). Text that was never whole (a torn
// last line; a hole, where the writer's machine failed within an append) was never acted upon and is skipped.
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
  // Stamps and appends all with one sync. After an error the log is closed, since nobody knows how much of the text is
  // in the file: every later append writes nothing and answers with that error.
  Status append(std::vector<Fact>& facts, const Clock& clock);
  // conflict if a later epoch exists.
  Status check_newest() const;

 private:
  EpochLog(std::string run_dir, std::int64_t epoch, std::int64_t appends)
      : run_dir_(std::move(run_dir)), epoch_(epoch), appends_(appends) {}
  Status keep_facts(const EpochRead& read, const Clock& clock, std::vector<Fact>& facts);

  std::string run_dir_;
  std::int64_t epoch_;
  std::int64_t appends_;  // so far
  Status closed_by_;      // the error of an append
};

}  // namespace longhaul
