// Processes of ranks that have no heartbeat page yet: what a launcher has started as `longhaul-worker rank` or
// `longhaul-rank rank` (worker/launch/rank_exec.h), which makes the page and then becomes the program. One that is
// stopped there, or waits for a dead disk, would otherwise be a rank that nothing is known of, for as long as a start
// may take. Ranks below a launcher of containers are seen once they are inside; what a launcher has not started is not
// seen at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "contracts/settings/job/launcher_variables.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

class PagelessRanks {
 public:
  explicit PagelessRanks(std::int64_t look_every_ms = 1'000) : look_every_ms_(look_every_ms) {}
  // Of these ranks of this host, as the launcher numbers them, those of which a process is there, or was: state, pid,
  // section `start`. Called often; reads /proc now and then, and not before they have been missing for as long.
  // `beat_folder`: where the pages of one program of one launch lie.
  const std::vector<RankReport>& look(const std::string& beat_folder, const std::vector<int>& without_page,
                                      const Clock& clock);

 private:
  std::int64_t look_every_ms_;
  std::string folder_;
  std::int64_t next_look_ns_ = 0;
  std::vector<RankReport> seen_;
};

}  // namespace longhaul
