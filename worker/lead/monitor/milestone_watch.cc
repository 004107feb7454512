#include "worker/lead/monitor/milestone_watch.h"

#include "contracts/records/milestone.h"

namespace longhaul {
namespace {
constexpr std::int64_t look_interval_ns = 1'000'000'000;
}

MilestoneWatch::MilestoneWatch(const Attempt& attempt, const Task& task, const Clock& clock) : clock_(clock) {
  if (!milestone_steps(task.settings).empty()) folder_ = attempt.milestones_dir();
}

bool MilestoneWatch::look() {
  if (folder_.empty() || clock_.monotonic_ns() < next_look_ns_) return false;
  next_look_ns_ = clock_.monotonic_ns() + look_interval_ns;
  const std::size_t now = published_milestones(folder_).size();
  const bool more = now > known_;
  known_ = now;
  return more;
}

}  // namespace longhaul
