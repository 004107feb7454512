// Room contracts/settings/job
// What a stage asks of its job, whatever the stage computes: scheduler options, resiliency, injected faults.
// job_options.h is [stage.x.job], resiliency.h the restart settings, faults.h and named_fault.h the injection.
// mpi_place.h, port_range.h and launcher_variables.h are facts of a site that several programs share.
// Nothing here is part of a task's key, so it knows no setting that changes results.
//
// What a stage may ask of the scheduler beyond ranks, nodes and time: the table `job` of a stage ([stage.x.job]). Empty
// text and -1 leave a choice to the site file. Nothing here changes results: no key of it is part of a task's key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct JobOptions {
  std::string job_class;  // key `class`: one of the site's ("debug", "prod"); "": the site's default
  std::string partition, qos, account, reservation, constraint, licenses;
  int gpus_per_node = -1;
  int ranks_per_node = 0;  // 0: ranks / nodes
  std::string memory;      // per node, as sbatch takes it ("200G", "0"); "": as the site says
  std::string exclusive;   // "yes" | "no"; "": as the site says
  std::string exclude;     // nodes not to use
  std::string switches;    // "1" or "1@01:00:00"
  int segment = 0;         // nodes of a block; 0: none
  Seconds stop_before{
      0};  // this long before the end of the job the ranks are ordered to save and stop; 0: as the site says
  std::string requeue;    // "yes" | "no": may Slurm start the same job again after a node failure
  bool no_kill = false;   // the allocation outlives the loss of a node
  int throttle = 0;       // tasks of a matrix that run at the same time; 0: no limit
  std::string resumable;  // "yes" | "no": goes on from its saved state in another job; "": as the kind does
  std::vector<std::string> modules;
  std::map<std::string, std::string> environment;
  std::string container;  // image, or file of an environment; "": none
  std::vector<std::string> mounts;
  std::vector<std::string> options;  // further sbatch options, one "--name=value" each
};
const FieldTable<JobOptions>& job_options_fields();

}  // namespace longhaul
