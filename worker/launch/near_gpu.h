// Puts this process, a rank about to become its program, on the CPUs beside its GPU.
#pragma once

#include <string>

#include "worker/launch/rank_arguments.h"
#include "worker/launch/rank_cpus.h"

namespace longhaul {

// How many ranks a node has, and which of them this one is, as mpirun and srun say it; ranks 0: nobody does.
struct LocalRank {
  int rank = 0, ranks = 0;
};
LocalRank local_rank(const Variable& variable);

// CPUs that this process may run on now; empty where the kernel does not say.
CpuNumbers cpus_of_this_process();

// A line for the rank's log: where it computes now, or why it could not be put there; "": it was left where it was,
// which is right or all that is known (rank_cpus.h). Memory follows: the kernel takes it from the node of the CPU that
// first writes to it.
std::string stay_near_gpu(const Variable& variable, const std::string& root = "");

}  // namespace longhaul
