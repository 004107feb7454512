// The ranks of one launch as a group: started, polled, told to stop. One engine rank is forked; several are started by
// mpirun (forked MPI processes would each be rank 0 of 1); the ranks of a `command` stage are forked one by one. Where
// the site has a launcher (srun), that starts all ranks on all nodes, of engine and command alike.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "contracts/attempt.h"
#include "contracts/launch.h"
#include "contracts/task.h"

namespace longhaul {

struct LaunchSpec {
  Attempt attempt;
  Task task;
  Launch launch;
  std::string launch_path;     // launch.toml
  std::string worker_program;  // this program: wraps the ranks below mpirun
  std::string mpirun = "mpirun";
};

// How a launch ended: of the rank that ended it first, ok() if all ended well.
struct LaunchEnd {
  int rank = -1;
  ExitStatus status;
  bool ok() const { return status.success(); }
};

class RankGroup {
 public:
  explicit RankGroup(const Clock& clock) : clock_(clock) {}
  ~RankGroup() { kill_all(); }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Starts all ranks; on an error none is left.
  Status start(const LaunchSpec& spec);
  // Reaps what ended; nullopt while ranks run. When one rank failed, the others get SIGTERM, after `grace_s` SIGKILL.
  Result<std::optional<LaunchEnd>> poll(double grace_s);
  // SIGTERM to every group now, SIGKILL after the grace; poll() goes on until all are gone.
  void stop();

 private:
  struct Child {
    pid_t pid = -1;
    int rank = 0;
    bool ended = false;
    bool group = true;  // its process group may still hold members
  };
  void signal_all(int signal_number);
  void kill_all();

  const Clock& clock_;
  std::vector<Child> children_;
  std::optional<LaunchEnd> first_end_;
  std::optional<std::int64_t> stop_asked_ns_;
  bool killed_ = false;
  int stop_signal_ = SIGTERM;
};

// The log file of a rank, below the launch's folder.
std::string launcher_log_path(const std::string& launch_dir);  // of mpirun or srun itself
std::string rank_log_path(const std::string& launch_dir, int rank);

}  // namespace longhaul
