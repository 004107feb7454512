// A stage's `resiliency` table as the detectors take it, and whether its keys fit each other.
#pragma once

#include <string>
#include <vector>

#include "contracts/records/job_step.h"
#include "contracts/settings/job/resiliency.h"
#include "resiliency/detect/hang/hang_timeouts.h"
#include "resiliency/detect/hang/step_stall.h"
#include "resiliency/timeout_hierarchy.h"

namespace longhaul {

HangTimeouts hang_timeouts_of(const ResiliencySettings& settings);
StepStallOptions step_stall_of(const ResiliencySettings& settings);

// What makes no sense in the table alone, all at once, each with its remedy.
std::vector<Error> judge_timeouts(const ResiliencySettings& settings);

// The table's part of the hierarchy, with the keys as they stand in it ("resiliency.startup"); what site, job and
// machine add is the caller's. The deadline of collectives is that of the engine's trainings.
TimeoutHierarchy hierarchy_of(const ResiliencySettings& settings, const std::string& stage_kind);

// Seconds from SIGTERM until the last rank is gone, of ranks or steps that are started with these arguments and have
// `grace_s` to end by themselves.
double stopping_s(double grace_s, const std::vector<std::string>& launcher, const std::vector<JobStep>& steps);

}  // namespace longhaul
