// How several programs share one job: which nodes, CPUs and GPUs each gets, and how it is started. Steps have nodes of
// their own, one after the other, or all of them share every node. Each node of the job is asked for alike, so it has
// room for the largest step, or for all of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contracts/records/job_step.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// {} where the stage runs one program.
std::vector<CommandStep> steps_asked(const PlannedStage& stage);

// With their nodes and ranks. `one_machine`: no scheduler gives nodes, all run here.
std::vector<JobStep> lay_out_steps(const std::vector<CommandStep>& asked, int nodes, bool one_machine);

// Of one node: what its largest step needs, or where steps share nodes all together.
int ranks_on_node(const std::vector<JobStep>& steps);
int cpus_on_node(const std::vector<JobStep>& steps);
// GPUs that the steps want of a node; one for each rank where a step does not say, at most `of_node`.
int gpus_wanted(const std::vector<CommandStep>& asked, const std::vector<JobStep>& steps, int of_node);

struct StepProblem {
  std::string key;  // of the stage: "step.actor.gpus_per_node"
  std::string what, hint;
};
// Gives each step its part of a node's GPUs; a problem if they want more.
std::optional<StepProblem> share_gpus(const std::vector<CommandStep>& asked, int gpus, std::vector<JobStep>& steps);

// Gives each rank its threads, or an even share of the node's `cpus` in whole cores, at least one CPU.
void share_cpus(const std::vector<CommandStep>& asked, int cpus, int threads_per_core, std::vector<JobStep>& steps);

// The steps of a stage where no scheduler gives nodes: side by side on `cores`. {} where it runs one program.
std::vector<JobStep> steps_on_one_machine(const PlannedStage& stage, int cores);

// What a step asks for of its job's GPUs, on each node: in the form that the site takes ("--gpus-per-node=4",
// "--gres=gpu:4"), for Slurm refuses both at once. Every step says it: what sbatch leaves for srun in the environment
// is unset (job_script.cc), for it speaks of all nodes of the job, and a launch may have fewer. Empty where the job has
// no GPUs, or asks for none by name.
std::vector<std::string> step_gpu_options(const SiteConfig& site, int gpus_of_job, int gpus_of_step);

// The `srun` of a job's agents, one a node, beside the ranks on what these have: all GPUs of the job, whose health they
// look at (--overlap shares them since Slurm 22.05). The step outlives a node that is lost.
std::vector<std::string> agent_launcher(int nodes, const SiteConfig& site, int gpus_of_job);

// The step's `srun`; --nodelist is added in the job. `no_kill`: it outlives the loss of a node, as its job does.
std::vector<std::string> step_launcher(const JobStep& step, const SiteConfig& site, int gpus_of_job, bool no_kill);

}  // namespace longhaul
