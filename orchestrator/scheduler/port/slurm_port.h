// Room orchestrator/scheduler/port
// How Slurm is called: one interface close to Slurm's own terms, and two implementations.
// slurm_port.h is the contract; helper_port.h uses the helper program, cli_port.h sbatch, squeue and others.
// open_slurm_port.h chooses between them; slurm_commands.h runs a command with a deadline.
// It decides nothing: whose a job is, and what a missing answer means, is scheduler/slurm's.
//
// What Longhaul needs of Slurm, close to Slurm's own terms and without any decision. Three implementations pass one
// contract suite: HelperPort (longhaul-slurm, libslurm), CliPort (sbatch, squeue, scontrol, sacct), and FakeSlurm
// (tests: virtual time, scripted faults). SlurmScheduler makes a Scheduler of any of them.
//
// Times are seconds since 1970, 0 for "not known". Every call has a deadline. Errors: unavailable (slurmctld does not
// answer, or refuses for now: try again later; the submission MAY have been accepted), not_found (it does not know the
// job), invalid_input (refused for good, or not
// ours to touch; with Slurm's own message).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// A job, or the tasks of an array that have not started yet, in one record (array_tasks says which).
struct SlurmJob {
  std::string id;           // "1234"; of a started array task its own number ("1240")
  std::string array_id;     // of the array as a whole; "" if it is none
  std::string array_tasks;  // "7" for one task, "3-9,12%4" for those that wait together; "" if it is none
  std::string name, comment, partition, account;
  std::string state;  // base state in capitals: PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL
                      // PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY; COMPLETING counts as RUNNING; UNKNOWN: a name
                      // that is not known (names/state_names.h), of a job that is alive
  std::int64_t cancelled_by = -1;  // uid, where accounting says it; -1: not known
  std::string ends_as;  // while COMPLETING: the state that it will end in, "" where the backend does not know
  std::string reason;   // "Resources", "JobHeldUser", "launch_failed_requeued_held", ...
  std::string dependency;
  std::string nodes;     // "n[1-2]"; "" before it starts
  std::string work_dir;  // absolute
  std::string command;   // script and its arguments, separated by blanks; "" where the backend does not say it
  bool other_user = false;
  int exit_code = 0, exit_signal = 0;
  int restarts = 0;
  bool held = false;  // priority 0
  std::int64_t submitted_s = 0, started_s = 0, ended_s = 0, time_limit_s = 0;
};

// The script's #SBATCH lines say what is wanted; `options` (long names without dashes) win over them.
struct SlurmSubmission {
  std::string script;                                        // path
  std::vector<std::string> arguments;                        // of the script
  std::vector<std::pair<std::string, std::string>> options;  // {"comment", key}, {"array", "0-9%2"}, {"exclusive", ""}
};

struct SlurmNode {
  std::string name, state, reason, features, gres, partitions;  // state: "IDLE", "ALLOCATED+DRAIN", "DOWN", ...
  int cpus = 0;
  std::int64_t memory_mib = 0;
};
struct SlurmPartition {
  std::string name, state, qos, nodes, allowed_accounts, tres;
  std::int64_t max_time_s = 0, default_time_s = 0;                    // 0: unlimited, none
  int nodes_total = 0, nodes_max = 0, nodes_min = 0, cpus_total = 0;  // nodes_max 0: no limit
  bool is_default = false, exclusive = false;
};
struct SlurmReservation {
  std::string name, nodes, partition, flags;  // flags: "MAINT,IGNORE_JOBS,..."
  std::int64_t start_s = 0, end_s = 0;
};
struct SlurmConfiguration {
  std::string cluster, version;  // of the controller: "22.05.8"
  std::int64_t min_job_age_s = 0, kill_wait_s = 0, slurmd_timeout_s = 0, message_timeout_s = 0;
  int max_array_size = 0, max_job_count = 0;
  bool accounting = false;  // sacct can be asked
  bool requeue = false;     // JobRequeue
  bool scrontab = false;    // ScronParameters=enable
  bool stepmgr = false;     // SlurmctldParameters=enable_stepmgr: a job's steps are made by its first node
  std::string select_type, task_plugin, mpi_default;
  std::string cli_filters;  // CliFilterPlugins: what sbatch and its kin ask before they submit; "": none
  // PrivateData, "jobs,reservations": of what Slurm shows less to whoever may not see all; "": of nothing. What such a
  // list lacks may be there.
  std::string private_data;
};
// Whether it names "reservations", "partitions", ...
bool shows_less(const SlurmConfiguration& slurm, const std::string& what);

struct SlurmWillRun {
  std::int64_t start_s = 0;
  std::string nodes, partition;
};

class SlurmPort {
 public:
  virtual ~SlurmPort() = default;
  // "longhaul-slurm (libslurm 22.05.8)", "sbatch and squeue (22.05.8)": for doctor and for errors.
  virtual std::string description() const = 0;
  // Submissions that take about a second: its caller looks around between two such windows.
  virtual std::size_t submit_window() const { return 256; }
  // Job ids, one answer per submission, in order. Implementations keep several under way where they can. Of those that
  // are not accepted, refusal_in() says what Slurm's message means (names/refusals.h).
  virtual std::vector<Result<std::string>> submit(const std::vector<SlurmSubmission>& submissions) = 0;
  // All jobs of this user that slurmctld still has, ended ones included: one question.
  virtual Result<std::vector<SlurmJob>> jobs() = 0;
  // One job, also just ended; all tasks' records of an array. not_found: forgotten, or never there.
  virtual Result<std::vector<SlurmJob>> job(const std::string& id) = 0;
  // From accounting; several records of an id are several lives of it, or other jobs that had it (accounted_end() says
  // which counts). unavailable: there is none, or it is down.
  virtual Result<std::vector<SlurmJob>> accounted(const std::vector<std::string>& ids) = 0;
  // `id` may name one task ("1234_7"). With `batch_only` the signal goes to the batch script alone.
  virtual Status signal(const std::string& id, int signal_number, bool batch_only) = 0;
  // Of a job that has ended: nothing happens. Of one that slurmctld does not know: not_found, or nothing (scancel is
  // silent about it).
  virtual Status cancel(const std::string& id) = 0;
  virtual Status requeue(const std::string& id, bool hold) = 0;
  virtual Status release(const std::string& id) = 0;
  // Long names: time_limit (minutes), dependency, excluded_nodes, comment, partition.
  virtual Status update(const std::string& id, const std::vector<std::pair<std::string, std::string>>& changes) = 0;
  virtual Result<SlurmWillRun> will_run(const SlurmSubmission& submission) = 0;
  virtual Result<std::vector<SlurmNode>> nodes() = 0;
  virtual Result<std::vector<SlurmPartition>> partitions() = 0;
  virtual Result<std::vector<SlurmReservation>> reservations() = 0;
  virtual Result<SlurmConfiguration> configuration() = 0;
  // What a wrapper of the site printed beside an answer that was read: "squeue: Welcome to ...", the first such line of
  // this object's life. It was skipped. "": nothing was.
  virtual std::string skipped() const { return {}; }
};

}  // namespace longhaul
