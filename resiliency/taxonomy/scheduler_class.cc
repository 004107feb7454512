#include "resiliency/taxonomy/scheduler_class.h"

namespace longhaul {

std::optional<FaultClass> class_of_scheduler_state(std::string_view state, bool we_cancelled) {
  struct Known {
    std::string_view state;
    FaultClass fault;
  };
  static constexpr Known table[] = {
      {"COMPLETED", FaultClass::none},        {"FAILED", FaultClass::program},
      {"TIMEOUT", FaultClass::wall_time},     {"DEADLINE", FaultClass::time_limit},
      {"NODE_FAIL", FaultClass::node_fail},   {"BOOT_FAIL", FaultClass::boot_fail},
      {"PREEMPTED", FaultClass::preempted},   {"OUT_OF_MEMORY", FaultClass::out_of_memory},
      {"REVOKED", FaultClass::launch_failed}, {"LAUNCH_FAILED", FaultClass::launch_failed},
  };
  state = state.substr(0, state.find(' '));  // "CANCELLED by 1000"
  if (state.starts_with("CANCELLED")) return we_cancelled ? FaultClass::cancelled : FaultClass::cancelled_there;
  constexpr std::size_t column_of_sacct = 10;  // wider words end with a plus: "OUT_OF_ME+"
  if (state.size() == column_of_sacct && state.back() == '+') {
    state.remove_suffix(1);
    for (const Known& known : table)
      if (known.state.starts_with(state)) return known.fault;
    return std::nullopt;
  }
  for (const Known& known : table)
    if (known.state == state) return known.fault;
  return std::nullopt;
}

}  // namespace longhaul
