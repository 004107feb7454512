// Slurm's commands, run with argv (no shell), a deadline, and an environment of their own: what an outer job of Slurm's
// set for itself does not reach them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "orchestrator/scheduler/names/state_names.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// Variables that a helper or command must not inherit, and the exceptions.
void leave_outer_job(SpawnSpec& spec);

// "sbatch" -> "/usr/bin/sbatch" ([programs] of a site); what is not named is found in PATH.
using ProgramPaths = std::map<std::string, std::string>;

// For commands whose output is read: plain C texts, times as seconds since 1970, lists of array tasks at full length.
// The output also of a command that failed. unavailable: it passed its deadline; not_found: there is no such command.
Result<RunOutput> run_slurm_query(std::vector<std::string> argv, std::int64_t deadline_ms,
                                  const ProgramPaths& programs = {});
// For sbatch, whose environment is the job's. `environment`: entries NAME=value to start it with, and nothing else but
// how Slurm is reached; empty: that of this process.
Result<RunOutput> run_slurm_submission(std::vector<std::string> argv, std::int64_t deadline_ms,
                                       const ProgramPaths& programs = {},
                                       const std::vector<std::string>& environment = {});
// Replaces what `spec` would inherit by these entries; SLURM_CONF and SLURM_JWT stay as they are here.
void submit_with(const std::vector<std::string>& environment, SpawnSpec& spec);

// What a command that failed said, the end of it where it is long, as one of the errors of slurm_port.h.
Error slurm_command_error(const std::string& what, const RunOutput& output);
// The same of a submission: what its message means for whoever wants it accepted (names/refusals.h).
Error slurm_submission_error(const std::string& what, const RunOutput& output);

// The first line with a letter that a wrapper printed beside what a command answered: greetings of a site, advice, a
// farewell.
class SkippedLine {
 public:
  void note(const std::string& program, const std::string& text);
  const std::string& text() const { return text_; }  // "squeue: Welcome to ..."; "": nothing was skipped

 private:
  std::string text_;
};

// Of these jobs, as accounting knows them; arrays: each task. Every life of a job that was queued again has a record of
// its own, and so has every job that was given the same number. A comment is kept where the site stores comments, and
// only from the job's end on; there is no reason. `skipped`: see SkippedLine.
Result<std::vector<SlurmJob>> read_accounting(const std::vector<std::string>& ids, std::int64_t deadline_ms,
                                              const ProgramPaths& programs, const std::string& cluster,
                                              SkippedLine& skipped);

// `argv` of one of Slurm's commands, for the cluster of this name; "": as it is.
std::vector<std::string> for_cluster(std::vector<std::string> argv, const std::string& cluster);

// Pieces of a text between separators that nobody can have written into a comment: random for each process.
class UniqueSeparators {
 public:
  UniqueSeparators();
  const std::string& record() const { return record_; }
  const std::string& field() const { return field_; }
  // The records of `text`, each as its fields; `before`: what stands before the first record, which is not Slurm's.
  std::vector<std::vector<std::string>> read(const std::string& text, std::string& before) const;

 private:
  std::string record_, field_;
};

// "1-02:03:04", "02:03:04", "03:04" in seconds; 0 for UNLIMITED, Partition_Limit and everything else.
std::int64_t read_slurm_duration(const std::string& text);
// Seconds since 1970; 0 for "Unknown", "N/A", "NONE".
std::int64_t read_slurm_time(const std::string& text);
// squeue's exit_code: a wait status in 22.05 ("768"), exit code and signal since 23.02 ("3:0", "0:15", and "0:53" of
// what slurmd could not start).
struct SlurmExit {
  int code = 0, signal = 0;
};
SlurmExit read_slurm_exit(const std::string& text);
// "" for "(null)", "N/A", "None", "Unknown", "None assigned".
std::string read_slurm_text(const std::string& text);

}  // namespace longhaul
