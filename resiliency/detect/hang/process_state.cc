#include "resiliency/detect/hang/process_state.h"

namespace longhaul {

const char* to_string(ProcessState state) {
  switch (state) {
    case ProcessState::none: return "none";
    case ProcessState::running: return "running";
    case ProcessState::stopped: return "stopped";
    case ProcessState::traced: return "traced";
    case ProcessState::blocked: return "blocked";
    case ProcessState::ended: return "ended";
  }
  return "unknown";
}

}  // namespace longhaul
