#include "orchestrator/slurm_helper/job_sizes.h"

#include <algorithm>

namespace longhaul {

JobSizes derive_sizes(JobSizes sizes, const SizeHints& hints) {
  if (hints.listed_nodes > 0) {
    sizes.nodes_min = sizes.nodes_set ? std::max(hints.listed_nodes, sizes.nodes_min) : hints.listed_nodes;
    sizes.nodes_set = true;
  }
  const bool fixed_nodes = sizes.nodes_max == 0 || sizes.nodes_min == sizes.nodes_max;
  if (hints.tasks_per_node > 0 && !sizes.tasks_set && fixed_nodes) {
    sizes.tasks = sizes.nodes_min * hints.tasks_per_node;
    sizes.tasks_set = true;
  }
  if (sizes.nodes_set && fixed_nodes && !sizes.tasks_set) {
    sizes.tasks = std::max(sizes.nodes_min, 1U);
    for (const std::uint32_t factor : hints.tasks_of_node) {
      sizes.tasks *= factor;
      sizes.tasks_set = true;
    }
  } else if (sizes.nodes_set && sizes.tasks_set) {
    sizes.nodes_max = std::min(sizes.nodes_max, sizes.tasks);
    if (sizes.tasks < sizes.nodes_min) sizes.nodes_min = sizes.nodes_max = sizes.tasks;
  }
  return sizes;
}

}  // namespace longhaul
