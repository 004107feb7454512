// Progress of a run while it is driven. On a terminal: a block of lines, redrawn in place. Otherwise: plain lines with
// the time, one per change of state, one at each tenth of a stage (at most one in ten seconds), and one every ten
// minutes at least, also where nothing has come further.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "orchestrator/state/run_status.h"

namespace longhaul {

// The block: running stages (at most 8) and one line that sums up. Lines are at most `columns` wide; where the figures
// would not fit the bar goes first, then time and rate, then the end of the stage's name.
std::vector<std::string> progress_block(const RunStatus& status, std::int64_t now_ms, std::size_t columns);

class ProgressView {
 public:
  ProgressView(bool terminal, std::size_t columns) : terminal_(terminal), columns_(columns) {}

  // What to write now; "" if there is nothing new. The caller writes it.
  std::string update(const RunStatus& status, std::int64_t now_ms);
  // Takes the block away, before other text is written.
  std::string clear();

 private:
  struct Seen {
    StageState state = StageState::waiting;
    std::int64_t printed_ms = 0;
    int tenth = 0;  // of its work, that was printed last
  };
  std::string changes(const RunStatus& status, std::int64_t now_ms);

  bool terminal_;
  std::size_t columns_;
  std::size_t drawn_ = 0;
  std::int64_t drawn_ms_ = 0;
  std::map<std::string, Seen> seen_;
};

}  // namespace longhaul
