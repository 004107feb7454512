// What a launch starts: every process with its arguments, environment and log. One engine rank is forked; several are
// started by mpirun (forked MPI processes would each be rank 0 of 1); the ranks of a `command` stage are forked one by
// one. Where the site has a launcher (srun), that starts all ranks on all nodes, of engine and command alike; of
// several programs in one job (steps) each has its own.
#pragma once

#include <string>
#include <vector>

#include "base/process/process.h"
#include "contracts/records/attempt.h"
#include "contracts/records/launch.h"
#include "contracts/tasks/task.h"
#include "worker/launch/rank_files.h"

namespace longhaul {

struct LaunchSpec {
  Attempt attempt;
  Task task;
  Launch launch;
  std::string launch_path;     // launch.toml
  std::string worker_program;  // this program: wraps the ranks below mpirun
  std::string mpirun = "mpirun";
};

struct RankProgram {
  SpawnSpec spawn;
  int rank = 0;      // the first that it starts; of its step where there are several
  std::string step;  // name, "" where the stage is one program
  bool service = false;
  bool by_srun = false;
  bool by_mpirun = false;       // of the engine
  std::string slurm_step_path;  // of a step started by srun: a file with its id, once its first rank is there
};
// Starts nothing. invalid_input: a command without a program; corrupt: the attempt has a step that its task has not.
Result<std::vector<RankProgram>> rank_programs(const LaunchSpec& spec);

// The hosts of a step among those of its launch.
std::vector<std::string> step_hosts(const Launch& launch, const JobStep& step);

// Folders and files below the launch's folder. A step has logs of its own, like a launch; `shared` is a folder that is
// empty at each start, for what the steps send to each other.
std::string step_folder(const std::string& launch_dir, const std::string& step);
std::string shared_folder(const std::string& launch_dir);
std::string launcher_log_path(const std::string& launch_dir);  // of mpirun or srun itself

}  // namespace longhaul
