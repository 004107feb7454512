// How many nodes and tasks a job asks for, as sbatch derives them from one another. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

struct JobSizes {
  std::uint32_t nodes_min = 1, nodes_max = 0, tasks = 1, cpus_per_task = 0;  // nodes_max 0: no range was given
  bool nodes_set = false, tasks_set = false, cpus_set = false;               // asked for, or derived
};

// What else says something about sizes; 0, or nothing: it was not asked for.
struct SizeHints {
  std::uint32_t listed_nodes = 0;  // hosts of --nodelist
  std::uint32_t tasks_per_node = 0;
  std::vector<std::uint32_t> tasks_of_node = {};  // sockets of a node, cores of a socket, threads of a core
};

// Tasks follow from nodes and the other way round, in sbatch's own order of steps.
JobSizes derive_sizes(JobSizes asked, const SizeHints& hints);

}  // namespace longhaul
