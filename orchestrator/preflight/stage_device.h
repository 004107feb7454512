// On what each stage of a plan computes. `device = "auto"` becomes gpu where the stage's job has GPUs and the installed
// engine can use them, and cpu elsewhere; stages that cannot use GPUs, and commands that say so, are on the processors
// and go to a class without GPUs where the site has one (device/job_class.h). What is decided here is written into the
// plan, and from there into every task: nothing decides it again.
//
// Known before anything runs: what the job asks for, how the engine was built, at a local site also whether this host
// has the GPUs. Found at the start of a rank: a driver, the GPU and its libraries on its host; a rank without them ends
// with the host's name, and computes nothing on processors (engine/ops/gpu.h).
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/preflight/engine_devices.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Sets `device` and `device_why` of every stage, and the setting `device` of those that have one. Problems, each at its
// place in the workflow: GPUs that would stand idle (device = "cpu" in a job that has them), GPUs that are missing
// (device = "gpu" in a job without, an engine without CUDA), and what is not there on GPUs yet where "auto" means them.
// `ignore`: the first two are warnings: the stage has what it says, and "auto" takes the job's GPUs for an engine that
// was built without CUDA, too. `warnings`: what is worth a line in a plan.
void decide_devices(const Site& site, const EngineDevices& engine, bool ignore, RunPlan& plan, Diagnostics& diagnostics,
                    std::vector<std::string>& warnings);

}  // namespace longhaul
