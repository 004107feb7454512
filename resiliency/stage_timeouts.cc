#include "resiliency/stage_timeouts.h"

#include <algorithm>

namespace longhaul {

HangTimeouts hang_timeouts_of(const ResiliencySettings& settings) {
  HangTimeouts timeouts;
  timeouts.suspect_s = settings.hang_suspect.value;
  timeouts.act_s = settings.hang_act.value;
  timeouts.startup_s = settings.startup.value;
  timeouts.factor = settings.hang_factor;
  timeouts.floor_s = settings.hang_floor.value;
  return timeouts;
}

std::vector<Error> judge_timeouts(const ResiliencySettings& settings) {
  const HangTimeouts timeouts = hang_timeouts_of(settings);
  std::vector<Error> errors = judge_timeouts(timeouts);
  TimeoutHierarchy hierarchy = hierarchy_of(timeouts);
  hierarchy.host_silent_s = settings.host_silent.value;
  for (const Error& error : judge_timeouts(hierarchy))
    if (std::none_of(errors.begin(), errors.end(), [&](const Error& one) { return one.what == error.what; }))
      errors.push_back(error);
  return errors;
}

}  // namespace longhaul
