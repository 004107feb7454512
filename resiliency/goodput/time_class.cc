#include "resiliency/goodput/time_class.h"

namespace longhaul {

const char* to_string(TimeClass time) {
  switch (time) {
    case TimeClass::training: return "training";
    case TimeClass::checkpoint_stall: return "checkpoint_stall";
    case TimeClass::detect: return "detect";
    case TimeClass::stop: return "stop";
    case TimeClass::start: return "start";
    case TimeClass::prepare: return "prepare";
    case TimeClass::load: return "load";
    case TimeClass::recompute: return "recompute";
    case TimeClass::queue: return "queue";
    case TimeClass::cores: return "cores";
    case TimeClass::idle: return "idle";
  }
  return "unknown";
}

}  // namespace longhaul
