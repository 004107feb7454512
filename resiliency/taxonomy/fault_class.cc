#include "resiliency/taxonomy/fault_class.h"

#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {

const char* to_string(FaultClass fault) {
  return info_of(fault).name;
}

FaultClass fault_class_of(const std::string& text) {
  for (const FaultInfo& info : fault_table)
    if (text == info.name) return info.fault;
  return FaultClass::program;
}

const char* to_string(FaultGroup group) {
  switch (group) {
    case FaultGroup::none: return "none";
    case FaultGroup::hopeless: return "hopeless";
    case FaultGroup::application: return "application";
    case FaultGroup::infrastructure: return "infrastructure";
    case FaultGroup::preemption: return "preemption";
    case FaultGroup::wall_time: return "wall_time";
    case FaultGroup::memory: return "memory";
    case FaultGroup::validation: return "validation";
  }
  return "unknown";
}

FaultGroup group_of(FaultClass fault) {
  return info_of(fault).group;
}

FaultClass classify_end(const JobRecord& record, bool own_program) {
  if (record.outcome == "succeeded") return FaultClass::none;
  if (record.ended_by == "wall_time") return FaultClass::wall_time;
  if (record.ended_by == "preempted") return FaultClass::preempted;
  if (record.ended_by == "time_limit") return FaultClass::time_limit;
  if (record.outcome == "cancelled") return FaultClass::interrupted;
  if (record.ended_by == "host_lost") return FaultClass::host_unreachable;  // its ranks were ended for it
  if (record.cause.find("No space left on device") != std::string::npos ||
      record.cause.find("quota exceeded") != std::string::npos)
    return FaultClass::disk_full;
  for (const char* sign : {"out of memory", "Out Of Memory", "oom-kill", "std::bad_alloc"})
    if (record.cause.find(sign) != std::string::npos) return FaultClass::out_of_memory;
  if (record.signal != 0) return class_of_signal(record.signal);
  // Failed without a code of its own: the lead itself gave up.
  return record.exit_code == 0 ? FaultClass::program : class_of_exit_code(record.exit_code, own_program);
}

}  // namespace longhaul
