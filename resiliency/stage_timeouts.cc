#include "resiliency/stage_timeouts.h"

#include <algorithm>

#include "base/text.h"

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

StepStallOptions step_stall_of(const ResiliencySettings& settings) {
  StepStallOptions options;
  options.act_s = settings.no_progress.value;
  options.factor = settings.hang_factor;
  options.floor_s = settings.hang_floor.value;
  options.startup_s = settings.startup.value;
  return options;
}

std::vector<Error> judge_timeouts(const ResiliencySettings& settings) {
  const HangTimeouts timeouts = hang_timeouts_of(settings);
  std::vector<Error> errors = judge_timeouts(timeouts);
  TimeoutHierarchy hierarchy = hierarchy_of(timeouts);
  hierarchy.host_silent_s = settings.host_silent.value;
  for (const Error& error : judge_timeouts(hierarchy))
    if (std::none_of(errors.begin(), errors.end(), [&](const Error& one) { return one.what == error.what; }))
      errors.push_back(error);
  if (settings.on_straggler == "swap" && settings.spares == 0)
    errors.push_back(make_error(ErrorCode::invalid_input, "on_straggler = \"swap\" without a spare",
                                "set spares = 1 or more, or on_straggler = \"report\""));
  if (settings.no_progress.value > 0 && settings.no_progress.value < settings.hang_suspect.value)
    errors.push_back(make_error(ErrorCode::invalid_input,
                                format("no_progress ({:g} s) is shorter than hang_suspect ({:g} s)",
                                       settings.no_progress.value, settings.hang_suspect.value),
                                "raise no_progress, or lower hang_suspect"));
  return errors;
}

}  // namespace longhaul
