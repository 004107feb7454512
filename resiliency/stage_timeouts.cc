#include "resiliency/stage_timeouts.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/control/collective_deadline.h"
#include "contracts/settings/job/resumable.h"

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
  std::vector<Error> errors = judge_timeouts(hang_timeouts_of(settings));
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

TimeoutHierarchy hierarchy_of(const ResiliencySettings& settings, const std::string& stage_kind) {
  const bool act_is_set = settings.hang_act.value > 0;
  TimeoutHierarchy all;
  all.host_silent = {settings.host_silent.value, "resiliency.host_silent"};
  all.suspect.setting = "resiliency.hang_suspect";
  if (settings.hang_suspect.value > 0) all.suspect.seconds = settings.hang_suspect.value;
  all.act = {(act_is_set ? settings.hang_act : settings.hang_floor).value,
             act_is_set ? "resiliency.hang_act" : "resiliency.hang_floor"};
  all.startup = {settings.startup.value, "resiliency.startup"};
  all.startup_is_default = settings.startup.value == ResiliencySettings{}.startup.value;
  all.ranks_gone = {settings.ranks_gone.value, "resiliency.ranks_gone"};
  if (!trains(stage_kind)) return all;
  all.collective.seconds = seconds_of(collective_deadline_ms);
  all.write_still.seconds = seconds_of(write_still_ms);
  return all;
}

double stopping_s(double grace_s, const std::vector<std::string>& launcher, const std::vector<JobStep>& steps) {
  const auto is_srun = [](const std::vector<std::string>& arguments) {
    return !arguments.empty() && file_name(arguments.front()) == "srun";
  };
  const bool by_srun = is_srun(launcher) || std::any_of(steps.begin(), steps.end(),
                                                        [&](const JobStep& step) { return is_srun(step.launcher); });
  return grace_s + (by_srun ? srun_ends_tasks_s : 0);
}

}  // namespace longhaul
