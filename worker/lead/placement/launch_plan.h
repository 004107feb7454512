// Room worker/lead/placement
// On which nodes the ranks of a launch run, and in which folders.
// launch_plan.h writes the launch; host_pool.h has nodes and spares; rank_layout.h shrinks, grow_back.h grows.
// leftovers.h and old_launches.h remove what earlier launches left; lead_ways.h says how agents reach the lead.
// It does not know the agents or why a node was left: it is given the nodes that are fit.
//
// How one launch of an attempt is laid out: on which nodes, which rank where, in which folders.
#pragma once

#include <string>
#include <vector>

#include "contracts/records/attempt.h"
#include "contracts/tasks/task.h"
#include "worker/launch/rank_programs.h"
#include "worker/lead/placement/allocation_info.h"
#include "worker/lead/placement/host_pool.h"

namespace longhaul {

// Who leads, of what, where.
struct LeadOf {
  Attempt attempt;
  Task task;
  AllocationInfo job;
  std::string worker_program;  // longhaul-worker
  std::int64_t epoch = 1;      // of the lead
};
// The engine, whose ranks stand or fall together; not a `command`.
inline bool has_own_program(const Task& task) {
  return task.kind != "command";
}

// Whether ranks are started on the nodes of the job, and not by fork or mpirun on this one.
bool uses_job_nodes(const LeadOf& lead);

// The job's nodes: those that the stage asked for work, more are spares. Only this node where no scheduler gave any.
// invalid_input: fewer than the stage's programs need.
Result<HostPool> host_pool_of(const LeadOf& lead);

// Takes the stage's state for this launch (ErrorCode::conflict: a later one has it), makes the launch's folders and
// writes launch.toml. `pages_in_memory`: each node keeps the pages of its ranks itself, where an agent reads them.
// `saved_step`: of the newest whole checkpoint that counts; -1: none.
Result<LaunchSpec> prepare_launch(const LeadOf& lead, int number, const HostPool& hosts, bool pages_in_memory,
                                  std::int64_t saved_step = -1);

}  // namespace longhaul
