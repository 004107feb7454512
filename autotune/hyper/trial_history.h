// What became of the trials of a search so far. It is all that a decision goes by: whoever has the history has the
// search, also after everything else was lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul::hyper {

enum class RungEnd {
  running,
  done,           // has a metric
  diverged,       // the metric, or the loss on the way, is no number
  out_of_memory,  // the next three are the configuration's fault, or the program's: not tried again
  crashed,
  hung,
  stopped,  // by a person, or by its time limit: not tried again, and says nothing of the configuration
  lost,     // the host, the allocation or the result itself: tried again
};
const char* to_string(RungEnd end);
std::optional<RungEnd> rung_end_of(const std::string& text);  // its inverse

// One start of a trial: a whole rung, or what was done of it.
struct RungResult {
  int rung = 0;
  RungEnd end = RungEnd::running;
  double metric = 0;       // of `done`
  std::int64_t steps = 0;  // trained by this start, in the trial's own steps; 0 while it runs
  bool operator==(const RungResult&) const = default;
};

struct Trial {
  std::string name;                 // trial_name(index)
  Value settings;                   // value by parameter, for example {"optimizer.lr": 1e-3}
  std::vector<RungResult> results;  // in the order of the starts
  bool operator==(const Trial&) const = default;
};

std::string trial_name(int index);         // "t0007"; sorting by name is sorting by number
int trial_index(const std::string& name);  // -1 where it is no such name

// {"trials": [{"name", "settings", "results": [{"rung", "end", "metric", "steps"}]}]}
Value history_to_value(const std::vector<Trial>& history);
// What is damaged is set aside, and named in `set_aside` with the reason: a trial without a usable name or settings as
// a whole (its number is then free again), a single result alone (that rung is then run again). Trials come sorted by
// name. An error where `value` is no history at all.
Result<std::vector<Trial>> history_from_value(const Value& value, std::vector<std::string>& set_aside);

}  // namespace longhaul::hyper
