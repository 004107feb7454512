// The environment that the jobs of a run are submitted with: that of the shell which made the run, whoever submits
// later, so that a stage finds the same whether the person's command, the lead of another job, scrontab or `resume` on
// another day has submitted it. Kept in the run's folder, readable for its owner alone: it may hold secrets.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

inline constexpr const char* submit_environment_file = "submit.environ";

// Pure: entries NAME=value, without what Slurm and MPI set for the job or step that a process runs in.
std::vector<std::string> environment_for_jobs(const std::vector<std::string>& entries);

// As it lies in the run's folder, and as Linux shows the environment of a process: entries that end with a NUL.
std::string submit_environment_text(const std::vector<std::string>& entries);

// Empty where the run has none, or only one that another user has written: what is executed with it would be his.
std::vector<std::string> read_submit_environment(const std::string& run_dir);

}  // namespace longhaul
