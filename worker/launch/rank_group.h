// Room worker/launch
// Starting the ranks of one launch, and the agents of a job's hosts (agent_launcher.h), and ending them.
// rank_programs.h says which processes are started, with arguments and environment; rank_group.h owns them.
// rank_exec.h stands between a launcher and one rank; rank_files.h has the paths of logs.
// It does not know why a launch ends: the lead watches and decides.
//
// The ranks of one launch as a group: started, polled, stopped. Of several programs in one job all count, but for
// services: those are ended when the others have ended well, and may then end as they like.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/system/clock.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {

// How a launch ended: of the rank that ended it first, ok() if all ended well.
struct LaunchEnd {
  int rank = -1;
  ExitStatus status;
  std::string step;  // the step that the rank is of; "" where the stage is one program
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
  // What this host started and has not seen end: rank by rank, or one launcher for all of a program's.
  struct Process {
    std::string step;
    int rank = 0;  // of its step
    pid_t pid = -1;
  };
  std::vector<Process> processes() const;
  // SIGTERM to every group now, SIGKILL after the grace, which for a step begins when Slurm has taken the signal
  // (scancel_answers_s at most); poll() goes on until all are gone.
  void stop();
  // The same for ranks that somebody else signals: mpirun, signalled itself, would end them within a second.
  void note_stop_request();
  bool by_mpirun() const;
  // SIGKILL to every group now: ranks that stand still, or wait for one that is gone, have nothing to save. Ranks that
  // a launcher started on other nodes are killed there by their agents.
  void kill();
  // They go on without us: nothing of them is ended when this group is.
  void release() { children_.clear(); }

 private:
  struct Child {
    pid_t pid = -1;
    RankProgram program;  // without its arguments
    bool ended = false;
    bool group = true;  // its process group may still hold members
    std::optional<std::int64_t> stop_requested_ns;
    pid_t scancel = -1;                        // under way, of a step that gets its signal through Slurm
    std::optional<std::int64_t> ask_again_ns;  // the last one failed
    int pressed = 0;                           // 1: after the grace; 2: srun, which takes a while for that
  };
  void ask_to_stop(Child& child);
  bool report_through_slurm(Child& child);
  void look_at_scancel(Child& child);
  void press(Child& child, double grace_s);
  static void signal(Child& child, int signal_number);
  void kill_all();

  const Clock& clock_;
  std::vector<Child> children_;
  std::optional<LaunchEnd> first_end_;
};

}  // namespace longhaul
