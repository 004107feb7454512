// Room orchestrator/preflight
// What cluster and machine say against a plan before it is submitted, and what the plan would cost.
// preflight.h asks Slurm; memory_check.h, timeout_check.h, launcher_check.h and promised_gpus.h are pure checks.
// stage_device.h decides CPU or GPU; plan_forecasts.h and plan_cost.h add up; doctor_job.h is `doctor --job`.
// It submits nothing of a run (only the doctor's own job) and does not know the controller.
//
// What the machine itself says against a plan before anything is submitted: partitions and reservations that are not
// there, more nodes or a longer wall time than they have, what Slurm itself would not take, modules that do not load.
// The site file was asked before.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/preflight/queue_estimate.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// What a cluster says of itself, and of each job as if it were submitted now (`sbatch --test-only`).
struct ClusterAnswers {
  std::vector<SlurmPartition> partitions;
  std::vector<SlurmReservation> reservations;
  std::vector<QueueAnswer> answers;  // of queue_estimate.h; empty: not asked
  SlurmConfiguration slurm = {};
};

// Pure. `jobs` in the order of the plan's stages; a problem that several stages share is reported once. Of a job that
// names a QOS or a constraint and no partition nothing is known but what Slurm answers: a filter of the site routes it.
// Returns what could not be looked at, a sentence each: a partition or reservation that Slurm does not show to
// everybody (PrivateData) is not taken for one that is not there.
std::vector<std::string> check_against_cluster(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                                               const ClusterAnswers& cluster, Diagnostics& diagnostics);

// Asks the cluster and checks. unavailable: it does not answer now; Slurm will say it when the jobs are submitted.
// `runs_dir`: of the runs, as for ask_queue(). Returns what could not be looked at, as check_against_cluster().
Result<std::vector<std::string>> check_with_slurm(SlurmPort& port, const RunPlan& plan,
                                                  const std::vector<JobPlan>& jobs, const std::string& runs_dir,
                                                  Diagnostics& diagnostics);

// Asks for the cluster's nodes, where a job asks for GPUs, and compares (device/promised_gpus.h). A cluster that does
// not answer says it when the jobs come.
void check_gpus_with_slurm(SlurmPort& port, const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                           Diagnostics& diagnostics);

// A class without a limit takes that of its partition; a site without classes, that of the default partition: every job
// then asks for a time, and is warned before it ends. Partitions of jobs that a filter routes are not known.
void take_walls_from(const std::vector<SlurmPartition>& partitions, Site& site);

// Loads the modules of every job as its script will, in a shell of their own. Where this host has no `module`, or
// processors of another kind than the nodes, nothing is known, and nothing is said.
void check_modules(const Site& site, const RunPlan& plan, Diagnostics& diagnostics);

}  // namespace longhaul
