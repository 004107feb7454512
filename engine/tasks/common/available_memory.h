// How much memory the ranks of this node may take together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error/result.h"

namespace longhaul {

// What the scheduler says in the environment, read where the program begins; 0: nothing. Slurm's SLURM_MEM_PER_NODE, or
// SLURM_MEM_PER_CPU times SLURM_CPUS_ON_NODE.
struct SchedulerMemory {
  std::int64_t per_node_mib = 0, per_cpu_mib = 0, cpus_on_node = 0;
};

struct AvailableMemory {
  std::int64_t bytes = 0;  // 0: not known
  std::string from;        // who says so: "the control group's limit /sys/fs/cgroup/job/memory.max"
  bool momentary = false;  // it is what other programs leave just now
};

// The smallest of what the scheduler has granted, the limits of this process's control group and of those around it
// (cgroup v2 memory.max, v1 memory.limit_in_bytes), and what the kernel takes to be free (MemAvailable). `root` stands
// before /proc and /sys: "" on a machine.
AvailableMemory available_memory(const SchedulerMemory& scheduler, const std::string& root = "");

// What `fits` says of what `look` finds. Memory that only other programs hold is looked for again, with a `pause`
// before every look but the first: a launch that was killed a moment ago may not have given all of its own back.
constexpr int memory_looks_max = 20;
constexpr int memory_pause_ms = 250;
Status check_available(const std::function<AvailableMemory()>& look,
                       const std::function<Status(const AvailableMemory&)>& fits, const std::function<void()>& pause);

}  // namespace longhaul
