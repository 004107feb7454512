// Room contracts/records
// The files by which the programs hand over: attempt.toml, launch.toml, record.json, manifest.json and others.
// Read attempt.h (controller to lead), launch.h (lead to ranks), record.h (how a job ended), in this order.
// manifest.h, checkpoint_format.h and milestone.h are what a stage leaves; state_owner.h says who may write it.
// It does not know the task (contracts/tasks): a record says how a job went, not what it was to do.
//
// attempt.toml: what the controller hands to the lead of one job. Written before the job is submitted, never changed;
// the lead finds everything else from here.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/records/job_step.h"
#include "contracts/records/record.h"
#include "contracts/settings/job/faults.h"
#include "contracts/settings/job/resiliency.h"

namespace longhaul {

struct Attempt {
  static constexpr int format = 1;
  std::string key;  // of the submission: unique among all jobs of all runs
  int attempt = 1;
  std::string run;                 // name of the run
  std::string stage;               // id: "sft" or "sft/lr=1e-05"
  std::string task_path;           // task.toml
  std::string attempt_dir;         // stages/<id>/attempts/<n>
  std::string stage_dir;           // stages/<id>
  std::string engine;              // path of longhaul-engine; unused by `command` stages
  std::string software;            // for the manifest
  double time_limit_s = 0;         // 0: none
  double grace_s = 10;             // between SIGTERM and SIGKILL
  std::int64_t at_least_step = 0;  // of a whole checkpoint of this stage, as the run's log has it; 0: none
  double stop_before_s = 0;        // SIGUSR1 to the lead this long before the job's end; 0: none
  ResiliencySettings resiliency;
  FaultSettings faults;  // to be injected
  std::string run_dir;   // of the whole run
  std::string doorbell;  // file to touch when the record is written; "" for none
  // Arguments before the program of a rank that start all of them ("srun", "--mpi=pmix", ...); empty: fork or mpirun.
  std::vector<std::string> launcher;
  // Arguments that start one agent on each node, beside the ranks; empty: the lead looks at the ranks itself.
  std::vector<std::string> agent_launcher;
  int gpus_per_node = 0;  // that the job asked for; 0: none, or not known
  // What of this program's nodes listens for the others does so there: "60001-63000"; "any": anywhere; "": in the range
  // that Slurm's own srun has (SrunPortRange), anywhere where it has none.
  std::string ports;
  // Container arguments, or none: options of srun, which then makes one for each rank, in which the rank's starter
  // (longhaul-rank) runs as well; or a program that a rank's starter starts, with the rank's program behind it.
  std::vector<std::string> container;
  std::vector<JobStep> steps;  // several programs at the same time, instead of the one; empty otherwise
  // The next round of the controller, for a lead whose run is driven by its jobs: run when the record is written, and
  // at these times after the start.
  std::vector<std::string> at_end;
  std::vector<double> rounds_at_s;
  std::string fault_plan;  // for the lead and its ranks; "" outside of tests

  std::string out_dir() const { return stage_dir + "/out"; }          // the published artifact
  std::string state_dir() const { return stage_dir + "/state"; }      // checkpoints; survive attempts
  std::string learned_dir() const { return stage_dir + "/learned"; }  // by its leads, for their next ones
  std::string milestones_dir() const { return stage_dir + "/milestones"; }
  // A launch's folder in it becomes out_dir by one rename.
  std::string staging_dir() const { return attempt_dir + "/staging"; }
  // A job that the scheduler queued again (`restarts` > 0) claims and records anew.
  std::string claim_path(int restarts = 0) const { return attempt_dir + "/" + claim_file_name(restarts); }
  std::string record_path(int restarts = 0) const { return attempt_dir + "/" + record_file_name(restarts); }
  // There once the run has asked for the end of this attempt: whatever else ends it then, it was cancelled.
  std::string cancelled_path() const { return attempt_dir + "/cancelled"; }
  // Bytes kept for the record on a disk that is full by then: removed before it is written.
  std::string reserve_path() const { return attempt_dir + "/reserve"; }
  std::string events_path() const { return attempt_dir + "/events.jsonl"; }
};

// At the end of an argument of a container: the folder in which the rank's program starts goes there.
inline constexpr const char* container_folder_mark = "=@";

// Of a round at the end of a job whose record could not be written: it is read from standard input.
inline constexpr const char* unwritten_record_option = "--unwritten-record";
// Of all rounds of leads: what is refused for now is left to the job that waits behind this one.
inline constexpr const char* leave_refused_option = "--leave-refused";
inline constexpr const char* round_of_job_option = "--of-job";  // the id of that job
// Of any round that a lead waits for: how long a scheduler may be silent.
inline constexpr const char* round_patience_option = "--patience";

Result<Attempt> read_attempt(const std::string& path);
Status write_attempt(const std::string& path, const Attempt& attempt);

}  // namespace longhaul
