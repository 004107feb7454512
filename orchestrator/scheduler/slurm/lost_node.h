// Which node a job of several nodes was lost with.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// `job_nodes` in Slurm's notation ("n[1-4]"), `nodes` as Slurm sees them now. "" where none of them is lost, or more
// than one: what takes several at once (a switch, a rack's power) is no fault of any of them. Pure.
std::string lost_node(const std::string& job_nodes, const std::vector<SlurmNode>& nodes);

}  // namespace longhaul
