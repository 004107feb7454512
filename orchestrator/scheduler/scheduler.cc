#include "orchestrator/scheduler/scheduler.h"

#include "base/text/text.h"

namespace longhaul {

std::string array_task_key(const std::string& key, int task) {
  return format("{}+{}", key, task);
}

Status Scheduler::exclude_only(const std::string& id, const std::vector<std::string>&) {
  return make_error(ErrorCode::unsupported, "job " + id + " cannot be given hosts to leave out");
}

const char* to_string(JobState state) {
  switch (state) {
    case JobState::queued: return "queued";
    case JobState::running: return "running";
    case JobState::ended: return "ended";
    case JobState::lost: return "lost";
  }
  return "unknown";
}

const char* to_string(SchedulerEnd end) {
  switch (end) {
    case SchedulerEnd::none: return "none";
    case SchedulerEnd::completed: return "completed";
    case SchedulerEnd::failed: return "failed";
    case SchedulerEnd::cancelled: return "cancelled";
    case SchedulerEnd::time_limit: return "time limit";
    case SchedulerEnd::node_fail: return "node failure";
    case SchedulerEnd::boot_fail: return "boot failure";
    case SchedulerEnd::preempted: return "preempted";
    case SchedulerEnd::out_of_memory: return "out of memory";
    case SchedulerEnd::launch_failed: return "launch failed";
    case SchedulerEnd::deadline: return "deadline";
    case SchedulerEnd::cancelled_by_site: return "cancelled by the site";
    case SchedulerEnd::forgotten: return "forgotten by the scheduler";
  }
  return "unknown";
}

}  // namespace longhaul
