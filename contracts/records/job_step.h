// One of several programs that share a job (the steps of a `command` stage): where it runs and how it is started. What
// it runs stands in the task's settings, below the same name.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

struct JobStep {
  std::string name;
  bool service = false;  // ended when all others have ended well
  // Nodes of the job, counted from 0. Steps have disjoint nodes, or all of them every node of the job.
  int first_node = 0, nodes = 1;
  bool own_nodes = false;
  int ranks = 1;  // on all its nodes together, the same number on each
  int cpus_per_rank = 1;
  int gpus_per_node = 0;
  // As Attempt::launcher, without the names of the nodes: those are known in the job.
  std::vector<std::string> launcher;

  int ranks_per_node() const { return ranks / nodes; }
};

// A table of all members but the name, under which it stands.
Value job_step_to_value(const JobStep& step);

}  // namespace longhaul
