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
    case FaultClass::cancelled: return "cancelled";
  }
  return "unknown";
}

FaultClass classify_end(const JobRecord& record, bool own_program) {
  if (record.outcome == "succeeded") return FaultClass::none;
  if (record.outcome == "cancelled") return FaultClass::interrupted;
  if (record.cause.find("time limit") != std::string::npos) return FaultClass::time_limit;
  if (record.cause.find("No space left on device") != std::string::npos ||
      record.cause.find("quota exceeded") != std::string::npos)
    return FaultClass::disk_full;
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
