// GPUs that a site file promises, against those that the cluster's nodes have. Pure.
#pragma once

#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// One problem for each value of the site file, or of a stage, by which a job asks for more GPUs of a node than any node
// of its partition has; at its place, with what to write. Of a job that names no partition and may be routed by a QOS
// or a constraint nothing is said, nor where nodes come with their GPUs unasked (ask.gpu_request = "none").
void check_promised_gpus(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                         const std::vector<SlurmPartition>& partitions, const std::vector<SlurmNode>& nodes,
                         Diagnostics& diagnostics);

}  // namespace longhaul
