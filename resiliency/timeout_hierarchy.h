// Every timeout that has to be longer than another one, and whether they fit each other. Judged twice: before anything
// is submitted, with what workflow and site say, and by a job's lead, with what is learned, measured and granted.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/control/control_times.h"

namespace longhaul {

struct Timeout {
  double seconds = 0;        // 0: there is no such thing, or it is not known
  std::string setting = {};  // the key that changes it, for the remedy: "stage.x.resiliency.startup"; "": none does
  SourcePos where = {};      // where that key was written; line 0: nowhere
};

// srun ends tasks on other hosts by force within that time of being asked to.
inline constexpr double srun_ends_tasks_s = 5;
// A signal for a step's tasks goes by way of slurmctld (scancel), which may be busy so long: their grace begins when it
// has answered, or when that time is over. No rule counts on it: where the job itself is about to end, Slurm signals
// the tasks.
inline constexpr double scancel_answers_s = 10;

constexpr double seconds_of(std::int64_t ms) {
  return static_cast<double>(ms) * 1e-3;
}

// What has a value here is so in every job.
struct TimeoutHierarchy {
  Timeout beat_interval{0.3};      // the longest between two looks of an agent at its pages
  Timeout report_interval{0.5};    // an agent is heard of at least so often
  Timeout host_silent{4.5};        // after which a host counts as gone
  Timeout suspect{1.5};            // the shortest that can come about
  Timeout act{45};                 // the shortest that can come about: as set, or the floor of what is learned
  Timeout longest_act;             // the longest that was learned
  Timeout fabric_silence;          // the longest silence of the fabric that must not end a launch
  Timeout transport;               // when the transport itself gives up
  Timeout collective;              // the deadline of a collective
  Timeout startup{1800};           // until the first steps are done
  bool startup_is_default = true;  // a ceiling then, which asks for no wall time
  Timeout stop{15};                // from SIGTERM until the last rank is gone
  Timeout final_checkpoint;        // the longest that a checkpoint took until it was whole
  Timeout grace;                   // before the wall time, when the job is asked to come to an end
  Timeout wall;                    // the job's wall time, or what is left of it
  Timeout kill_wait;               // KillWait of Slurm: from its SIGTERM to its SIGKILL
  Timeout slurmd_timeout;          // SlurmdTimeout of Slurm: a silent node is down, and its jobs end
  // Of control_times.h.
  Timeout ping_interval{seconds_of(ping_interval_ms)};
  Timeout lead_question{seconds_of(scheduler_question_ms)};
  Timeout lead_silent{seconds_of(lead_silent_ms)};
  Timeout others_still{seconds_of(others_still_ms)};
  Timeout storage_failover{seconds_of(storage_failover_ms)};
  Timeout write_still;       // of trainings: a save is given up
  Timeout ranks_gone{60};    // after SIGKILL, before a node is left for the ranks that are still there
  Timeout longest_teardown;  // that ranks took to be gone, as measured
  // Of whoever drives a run.
  Timeout submission;     // of a job, until the scheduler has answered or is given up
  Timeout settle;         // until a submission without an answer is known to have brought no job
  Timeout driver_silent;  // after which another command takes over from a driver
};

struct TimeoutContradiction {
  Error error;            // invalid_input, with the place of the first setting that has one
  std::string rule;       // the same for the same rule, whatever the numbers
  bool mendable = false;  // some setting would change it
};
// All contradictions at once, each with its remedy; empty: the hierarchy holds.
std::vector<TimeoutContradiction> judge_timeouts(const TimeoutHierarchy& timeouts);

// Those that have a value, from the shortest to the longest, each by its name in contradictions.
struct NamedDeadline {
  std::string name;
  Timeout timeout;
};
std::vector<NamedDeadline> deadlines_in_order(const TimeoutHierarchy& timeouts);

// When a queue pair of InfiniBand gives up, in seconds: 4.096 us * 2^timeout for each of `retries` tries (InfiniBand
// Architecture Specification, Local ACK Timeout). 0: never, which is what a timeout of 0 means there.
double infiniband_timeout_s(int timeout, int retries);

}  // namespace longhaul
