// Which states of a training are still its own. A training that rolls back by itself (on_spike.action = "rollback")
// abandons what it did after the step that it goes back to; copies on the nodes (local_copies.h) of these steps may
// survive, and their steps are newer than those of what it saves next. So every roll-back is written down beside the
// checkpoints, in one file, before the first step after it:
//
//   CHECKPOINTS/time-line.json   {"file", "format", "line": roll-backs until now, "roll_backs": [{"line", "to_step",
//                                 "from_step", "skipped_samples"}], "spent": steps that count against on_spike.budget}
//
// and every state that is saved says on which line it was made (time_line_key of its extra table, absent: 0). A state
// of step s, made on line k, is one of the present line if no later roll-back went behind it: s <= to_step of every
// roll-back j > k. The same file says from which step on how many samples are left out, so that a training which was
// ended between a roll-back and its next save leaves out the same ones, also where what it saw does not come again.
//
// A roll-back to a step at or before that of an earlier one makes that one void: its target lies on no line any more.
// So the list is ascending in both numbers, and as short as the steps that training went back to.
//
// Ranks that end because weights may be wrong write a roll-back as well, to the last step that is known to be sound;
// nothing is left out then, and the numbers of samples stay as the states say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/files/file_retry.h"
#include "base/value/value.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

inline constexpr const char* time_line_key = "time_line";  // of a saved state's extra table

class TimeLine {
 public:
  // 0: it never rolled back.
  std::int64_t number() const { return number_; }
  // The one after a roll-back. `skipped_samples`: left out in all, from to_step on; nullopt: as many as before.
  // `spent`: an array of steps. `from_step`: the newest that may have been saved; -1: any.
  TimeLine rolled_back(std::int64_t to_step, std::optional<std::int64_t> skipped_samples, Value spent,
                       std::int64_t from_step = -1) const;
  // Whether a state with this extra table belongs to the present line.
  bool holds(std::int64_t step, const Value& extra) const;
  // Of a training that has saved `step`: the step that it may be found at at least. That one, unless a roll-back went
  // behind it.
  std::int64_t least_step(std::int64_t step) const;
  // Samples that are left out in all from here on, where a roll-back went to this step; else they stay as they are.
  std::optional<std::int64_t> skipped_from(std::int64_t step) const;
  // SpikeGuard::state of a saved state that goes on here: what was spent since then stays spent.
  Value spikes_of(const Value& extra, Value spikes) const;

  Value to_value() const;
  static Result<TimeLine> from_value(const Value& value);  // ErrorCode::corrupt
  bool operator==(const TimeLine&) const = default;

 private:
  struct RollBack {
    std::int64_t line = 0, to_step = 0;
    std::optional<std::int64_t> skipped_samples = {};
    std::int64_t from_step = -1;
    bool operator==(const RollBack&) const = default;
  };
  std::int64_t number_ = 0;
  std::vector<RollBack> roll_backs_;  // ascending in line and to_step
  Value spent_ = Value::make_array();
};

// Collective: what the first rank finds in the folder of the checkpoints; the first line where there is no such file.
// A file that cannot be read is asked for again, and then an error.
Result<TimeLine> read_time_line(CollectiveGroup& group, const std::string& folder, const FileRetry& retry = {});
// The same of one rank.
Result<TimeLine> read_time_line(const std::string& folder, const FileRetry& retry = {});
// On the first rank. Synced: once it returns well, no restart takes anything that was abandoned.
Status write_time_line(const std::string& folder, const TimeLine& line);

}  // namespace longhaul
