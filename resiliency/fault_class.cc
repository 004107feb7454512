#include "resiliency/fault_class.h"

#include <csignal>

namespace longhaul {

const char* to_string(FaultClass fault) {
  switch (fault) {
    case FaultClass::none: return "none";
    case FaultClass::bad_input: return "bad_input";
    case FaultClass::program: return "program";
    case FaultClass::crash: return "crash";
    case FaultClass::killed: return "killed";
    case FaultClass::interrupted: return "interrupted";
    case FaultClass::time_limit: return "time_limit";
    case FaultClass::disk_full: return "disk_full";
    case FaultClass::lost: return "lost";
    case FaultClass::not_started: return "not_started";
    case FaultClass::wall_time: return "wall_time";
    case FaultClass::node_fail: return "node_fail";
    case FaultClass::boot_fail: return "boot_fail";
    case FaultClass::launch_failed: return "launch_failed";
    case FaultClass::preempted: return "preempted";
    case FaultClass::out_of_memory: return "out_of_memory";
    case FaultClass::cancelled_there: return "cancelled_there";
    case FaultClass::cancelled: return "cancelled";
  }
  return "unknown";
}

FaultClass fault_class_of(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(FaultClass::cancelled); ++i)
    if (text == to_string(static_cast<FaultClass>(i))) return static_cast<FaultClass>(i);
  return FaultClass::program;
}

FaultGroup group_of(FaultClass fault) {
  switch (fault) {
    case FaultClass::none:
    case FaultClass::cancelled_there:
    case FaultClass::cancelled: return FaultGroup::none;
    case FaultClass::bad_input:
    case FaultClass::time_limit: return FaultGroup::hopeless;
    case FaultClass::node_fail:
    case FaultClass::boot_fail:
    case FaultClass::launch_failed: return FaultGroup::infrastructure;
    case FaultClass::preempted: return FaultGroup::preemption;
    case FaultClass::wall_time: return FaultGroup::wall_time;
    case FaultClass::out_of_memory: return FaultGroup::memory;
    default: return FaultGroup::application;
  }
}

FaultClass classify_end(const JobRecord& record, bool own_program) {
  if (record.outcome == "succeeded") return FaultClass::none;
  if (record.ended_by == "wall_time") return FaultClass::wall_time;
  if (record.outcome == "cancelled") return FaultClass::interrupted;
  if (record.cause.find("time limit") != std::string::npos) return FaultClass::time_limit;
  if (record.cause.find("No space left on device") != std::string::npos ||
      record.cause.find("quota exceeded") != std::string::npos)
    return FaultClass::disk_full;
  for (const char* sign : {"out of memory", "Out Of Memory", "oom-kill", "std::bad_alloc"})
    if (record.cause.find(sign) != std::string::npos) return FaultClass::out_of_memory;
  switch (record.signal) {
    case 0: break;
    case SIGKILL: return FaultClass::killed;
    case SIGTERM:
    case SIGINT:
    case SIGHUP: return FaultClass::interrupted;
    default: return FaultClass::crash;
  }
  const bool refused = record.exit_code == engine_exit_invalid_input || record.exit_code == engine_exit_unsupported;
  if (own_program && refused) return FaultClass::bad_input;
  return FaultClass::program;
}

}  // namespace longhaul
