// How large one job is: nodes, ranks, CPUs and GPUs, by what the stage asks for and what nodes of its class have.
#pragma once

#include <string>
#include <vector>

#include "contracts/records/job_step.h"
#include "orchestrator/job/request/job_sources.h"

namespace longhaul {

struct JobShape {
  int nodes = 1, ranks = 1, ranks_per_node = 1, cpus_per_rank = 1, gpus_per_node = 0;
  int spares = 0;  // further nodes, like the others, without ranks at first
  // Several programs, each with a launcher of its own; `ranks` are then places for them, alike on every node.
  std::vector<JobStep> steps;
};

// What does not fit the site or its class is a problem of the key that asks for it.
JobShape shape_of(const JobSources& from);

// The key that wants a job to outlive the loss of a node ("resiliency.spares"); "": none does.
std::string outlives_nodes_by(const StageCommon& common);

// One node and what a job takes of it; 0 for what is not known, or not asked for.
struct NodeShare {
  int cpus = 0, gpus = 0;  // that the node has
  int job_gpus = 0;        // that the job takes of it
  int cpus_per_gpu = 0;    // as the site asks for it
  int threads = 0;         // of a rank; 0: it wants a share
  int ranks = 1;           // on the node
};
struct CpuShare {
  int of_job = 1;      // CPUs of the node that belong to the job
  int per_rank = 1;    // of them; a rank's threads may be more
  bool bound = false;  // by the site's CPUs for each GPU
};
// A rank gets the CPUs of its GPUs, or an even share of the node.
CpuShare cpu_share(const NodeShare& node);

}  // namespace longhaul
