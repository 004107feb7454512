// Does what the ranks of a node will hold fit into its memory? Asked before anything is submitted; the engine asks
// again on the node, where it knows what is free.
#pragma once

#include <string>

#include "base/error/result.h"
#include "orchestrator/job/job_plan.h"

namespace longhaul {

struct GrantedMemory {
  std::int64_t bytes = 0;  // of a node; 0: not known
  std::string from;        // "workflow: stage.train.job.memory", "site x: node.memory"
};
// Of an amount as sbatch takes it; 0: none, or all of a node's.
std::int64_t slurm_memory_bytes(const std::string& text);
// What a job asks for, as sbatch takes it ("200G"; MiB where no unit stands), or where that is nothing or all of a
// node's ("0"), what the site's nodes have.
GrantedMemory granted_memory(const Site& site, const std::string& asked, const std::string& origin);

// unavailable: they need more (contracts/plan/memory_plan.h). Trainings whose model another stage makes, those on GPUs,
// and other kinds, pass; so do settings that other checks refuse.
Status check_stage_memory(const PlannedStage& stage, const JobPlan& job, const SiteConfig& site,
                          const GrantedMemory& memory);

}  // namespace longhaul
