// The deadlines of a plan's trainings, from the shortest to the longest: `longhaul plan`. Which has to be longer than
// which is resiliency/timeout_hierarchy.h's to say; a plan that contradicts it is refused before it is shown.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/job/job_plan.h"

namespace longhaul {

// Stages with the same deadlines are one list. `jobs` in the order of the plan's stages; empty on a local site.
std::string deadlines_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs);
Value deadlines_value(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs);

}  // namespace longhaul
