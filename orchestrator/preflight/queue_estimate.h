// When Slurm would start the jobs of a plan, were they submitted now: its own will-run answer, which submits nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

struct QueueAnswer {
  std::string stage;  // its id; its name, where all of its variants ask for the same
  std::int64_t start_s = 0;
  std::string nodes, partition;
  std::string refused;    // Slurm's message, when it would not take the job
  bool for_good = false;  // of a refusal: not only for now
};

struct QueueEstimate {
  std::string cluster;               // the name of the one that answered
  std::vector<QueueAnswer> answers;  // in plan order, one for all variants of a stage that ask for the same
  std::vector<std::string> notes;    // what its Slurm means for jobs of this plan, a sentence each
  std::string problem;               // why nothing was asked, or not everything; "" if everything was
};

// Each stage as if nothing stood before it. At most `questions_max` different jobs are asked for; equal ones once.
// `jobs` in the order of the plan's stages. A cluster that has fallen silent is asked no more: that costs two deadlines
// of the port at the most.
// `runs_dir`: the folder of runs, below which the jobs would work: filters of sites look at it. Nothing is written.
inline constexpr std::size_t questions_max = 20;
QueueEstimate ask_queue(SlurmPort& port, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                        const std::string& runs_dir);

}  // namespace longhaul
