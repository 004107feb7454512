#include "worker/protocol/ranks/rank_look.h"

#include <algorithm>

namespace longhaul {

RankReport look_at_rank(const std::function<BeatSnapshot()>& page,
                        const std::function<ProcessState(std::int64_t pid)>& process, const Clock& clock) {
  RankReport report;
  report.beat = page();
  report.state = process(report.beat.pid);
  if (report.state == ProcessState::ended) {
    const std::int64_t ended = report.beat.pid;
    report.beat = page();
    if (report.beat.pid != ended) report.state = process(report.beat.pid);  // another process has the page now
  }
  if (report.beat.changed_ns > 0)  // a page without a first beat has stood still since nobody knows when
    report.idle_ms = std::max<std::int64_t>(0, (clock.monotonic_ns() - report.beat.changed_ns) / 1'000'000);
  return report;
}

}  // namespace longhaul
