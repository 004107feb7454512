// The class of a site's jobs that a stage goes to, and whether its jobs have GPUs. Pure.
#pragma once

#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// The one that the stage names; else the first whose `kinds` hold its kind; for a stage on processors (device "cpu")
// that names no route of its own, the site's default if that has no GPUs, else the first class without GPUs that takes
// stages, so many nodes and so long a job; else the site's default, or its only one. A class without a name: none.
JobClass job_class_of(const SiteConfig& site, const PlannedStage& stage);
// As if it computed on `device`.
JobClass job_class_of(const SiteConfig& site, const PlannedStage& stage, const std::string& device);

// Of a node of the class.
int gpus_of_class(const SiteConfig& site, const JobClass& one);

// `kinds` is empty, or names a kind of stages or "cpu", all stages on processors; what only drives runs or moves data
// does not take any.
bool takes_stages(const JobClass& one);

// Whether the stage's job asks for GPUs, or gets nodes that come with theirs.
bool job_has_gpus(const SiteConfig& site, const JobClass& one, const PlannedStage& stage);

}  // namespace longhaul
