// Room orchestrator/job
// How a stage becomes a job: what it asks for, launcher, container, and the text of job.sbatch.
// job_plan.h composes (plan_job) what orchestrator/job/request decides one by one; job_script.cc writes.
// launcher_arguments.h is the ranks' launcher, container_mounts.h what containers see.
// It knows no run folder and no controller: the same site and stage give the same job everywhere.
//
// How one stage's job asks for what it needs at one site: routing, limits, directives with the origin of each,
// launcher, environment. Pure: the same site and stage give the same job, in every controller.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/job/request/job_length.h"
#include "orchestrator/job/request/job_shape.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct JobPlan : JobShape, JobLength {
  std::vector<Directive> directives;  // without those that name the run, the stage or the attempt
  std::string job_class, partition;
  bool requeue = false;   // Slurm may start the same job again
  bool calls_mpi = true;  // its ranks do
  int running_max = 0;    // jobs of its class that run at the same time, for arrays; 0: no limit known
  // The arguments before the rank's program, for the lead: {"srun", "--mpi=pmix", "--ntasks=8", ...}; empty: the lead
  // forks the one rank, or calls mpirun.
  std::vector<std::string> launcher;
  std::vector<std::string> agent_launcher;    // one agent a node; empty: none
  std::vector<std::string> container;         // its arguments (contracts/records/attempt.h), or none
  std::string container_image;                // "": no container
  std::vector<std::string> container_mounts;  // of the site and of the stage; the run's own are added for its jobs
  std::vector<std::string> prologue;          // shell lines of the script, comments included: modules, variables

  double gpu_hours() const {
    return wall_s / 3600 * (nodes + spares) * gpus_per_node;
  }  // of one job that uses all its time
};

// Problems (no account, more nodes than the partition has, a wall time over the limit that cannot become a chain, an
// option that the site forbids, ...) go to `diagnostics` with the place where the user wrote it.
// A site whose scheduler is not Slurm gives shape, time and container, and no directives.
JobPlan plan_job(const Site& site, const PlannedStage& stage, Diagnostics& diagnostics);
// Of every stage, in order; a problem that several stages share is reported once.
std::vector<JobPlan> plan_jobs(const Site& site, const RunPlan& plan, Diagnostics& diagnostics);

// One job.sbatch. Every value is quoted as data; nothing of the user's is interpolated into shell. invalid_input: a
// path of the context, or a directive of the attempt, that no #SBATCH line can hold.
struct JobScriptContext {
  std::string run;          // name
  std::string stage;        // id
  std::string run_dir;      // absolute
  std::string worker;       // path of longhaul-worker
  std::string attempt_dir;  // of the attempt; of an array: the folder that holds tasks.txt, one attempt folder a line
  bool array = false;
  std::vector<Directive> of_attempt;  // what only this attempt asks for: excluded nodes, a shorter wall time
  std::string body = {};              // shell lines in place of the lead's start; "": the lead
};
Result<std::string> job_script(const JobPlan& plan, const JobScriptContext& context);

}  // namespace longhaul
