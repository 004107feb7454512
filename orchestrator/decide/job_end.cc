#include "orchestrator/decide/job_end.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t clock_slack_ms = 120'000;

FaultClass fault_of_scheduler(SchedulerEnd end, bool we_cancelled, FaultClass otherwise) {
  switch (end) {
    case SchedulerEnd::time_limit: return FaultClass::wall_time;
    case SchedulerEnd::node_fail: return FaultClass::node_fail;
    case SchedulerEnd::boot_fail: return FaultClass::boot_fail;
    case SchedulerEnd::preempted: return FaultClass::preempted;
    case SchedulerEnd::out_of_memory: return FaultClass::out_of_memory;
    case SchedulerEnd::launch_failed: return FaultClass::launch_failed;
    case SchedulerEnd::deadline: return FaultClass::time_limit;
    // Whoever did it did not mean that the run should end: it goes on, as often as its retries allow.
    case SchedulerEnd::cancelled_by_site: return we_cancelled ? FaultClass::cancelled : FaultClass::interrupted;
    case SchedulerEnd::cancelled: return we_cancelled ? FaultClass::cancelled : FaultClass::cancelled_there;
    default: return otherwise;
  }
}

bool is_one_node(const std::string& nodes) {
  return !nodes.empty() && nodes.find_first_of(",[") == std::string::npos;
}

}  // namespace

JobTimes times_by_our_clock(JobTimes reported, std::int64_t wanted_ms, std::int64_t now_ms) {
  const auto may_be = [&](std::int64_t ms) {
    return ms == 0 || (ms >= wanted_ms - clock_slack_ms && ms <= now_ms + clock_slack_ms);
  };
  const bool in_order = reported.ended_ms == 0 || reported.started_ms <= reported.ended_ms;
  if (may_be(reported.started_ms) && may_be(reported.ended_ms) && in_order) return reported;
  if (reported.ended_ms == 0) return {now_ms, 0};
  if (reported.started_ms == 0) return {0, now_ms};
  const std::int64_t longest_ms = std::max<std::int64_t>(0, now_ms - wanted_ms);
  return {now_ms - std::clamp<std::int64_t>(reported.ended_ms - reported.started_ms, 0, longest_ms), now_ms};
}

std::optional<JobEnd> judge_end(const JobInfo& info, bool own_program, bool we_cancelled) {
  JobEnd end;
  if (info.end == SchedulerEnd::node_fail)
    end.node = info.lost_node;  // those that are left have done nothing
  else if (is_one_node(info.nodes))
    end.node = info.nodes;
  end.started_ms = info.started_ms;
  if (!info.record) {
    // Acknowledged, then forgotten without ever having started: its slurmctld crashed.
    const bool never_started = info.end == SchedulerEnd::forgotten && info.started_ms == 0;
    end.fault = we_cancelled    ? FaultClass::cancelled
                : never_started ? FaultClass::launch_failed
                                : fault_of_scheduler(info.end, we_cancelled, FaultClass::lost);
    end.cause = info.cause;
    return end;
  }
  const JobRecord& record = *info.record;
  end.cause = record.cause;
  end.step = record.step;
  end.nodes_left = record.nodes_left;
  end.started_ms = record.started_ms;
  end.ended_ms = record.ended_ms;
  if (end.node.empty() && info.end != SchedulerEnd::node_fail && is_one_node(record.nodes)) end.node = record.nodes;
  end.fault = classify_end(record, own_program);
  const bool scheduled = !record.scheduler_job.empty() || info.end != SchedulerEnd::none;
  if (end.fault == FaultClass::interrupted && !we_cancelled && scheduled) {
    // A preemption, an administrator, a drained node: only the scheduler knows.
    if (info.end == SchedulerEnd::none) return std::nullopt;
    end.fault = fault_of_scheduler(info.end, we_cancelled, FaultClass::interrupted);
    end.cause = format("{} ({})", end.cause, to_string(info.end));
  } else if (we_cancelled) {
    // A host that was lost in the same moment changes nothing about it.
  } else if (info.end == SchedulerEnd::out_of_memory) {
    end.fault = FaultClass::out_of_memory;
  } else if (info.end == SchedulerEnd::node_fail) {
    end.fault = FaultClass::node_fail;
  }
  return end;
}

}  // namespace longhaul
