#include "resiliency/taxonomy/exit_class.h"

#include <csignal>

namespace longhaul {
namespace {
constexpr int not_executable = 126, not_found = 127, signal_base = 128, signal_max = 64;
}

FaultClass class_of_signal(int signal_number) {
  switch (signal_number) {
    case 0: return FaultClass::none;
    case SIGKILL: return FaultClass::killed;
    case SIGTERM:
    case SIGINT:
    case SIGHUP: return FaultClass::interrupted;
    default: return FaultClass::crash;
  }
}

FaultClass class_of_exit_code(int code, bool own_program) {
  switch (code) {
    case 0: return FaultClass::none;
    case exit_no_retry: return FaultClass::no_retry;
    case exit_rerun_to_compare: return FaultClass::rerun_to_compare;
    case exit_failed_validation: return FaultClass::failed_validation;
    case not_executable:
    case not_found: return FaultClass::cannot_execute;
    default: break;
  }
  if (own_program && (code == engine_exit_invalid_input || code == engine_exit_unsupported))
    return FaultClass::bad_input;
  if (code > signal_base && code <= signal_base + signal_max) return class_of_signal(code - signal_base);
  return FaultClass::program;
}

}  // namespace longhaul
