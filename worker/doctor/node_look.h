// What one process of a doctor's job sees of its node by itself. Values, for a file that others read
// (worker/doctor/node_facts.h); sizes in bytes, -1 where a thing cannot be seen.
#pragma once

#include "base/value/value.h"
#include "contracts/records/doctor.h"
#include "worker/launch/rank_arguments.h"

namespace longhaul {

// GPUs: `nvml`, of NVIDIA's library; `devices`, files /dev/nvidia* that open; `named`, of CUDA_VISIBLE_DEVICES; and the
// launcher's variable for which rank this is: `rank`, `rank_by` (the variable), `local_rank`. `cpus`: that it may run
// on, as "0-15"; `gpu_places`: of the GPUs that CUDA shows it, in CUDA's order, `address` and `cpus` beside each
// (gpu_places.h). `root` stands before the paths of these; "" outside of tests.
Value look_at_place(const Variable& variable, const std::string& root = "");
// Processors, memory, /dev/shm, the limit of the job's cgroup, the node's own folder.
Value look_at_node(const DoctorOrder& order);

// The tightest memory limit of the cgroups that this process is in; -1: none.
std::int64_t memory_limit(const std::string& proc_self_cgroup, const std::string& cgroup_root);
// "0-3,8": 5 processors; how many of these are one core's: its threads.
int count_of_list(const std::string& list);

}  // namespace longhaul
