// The step of a job that runs the agents: started beside the ranks, and again when it ends before its time, for ranks
// go on without it. It asks for the GPUs of the job, whose health agents look at. Where Slurm refuses that, or lets it
// wait for them, it is started without: then nobody looks at the GPUs, which the lead reports (unwatched_gpus.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/process/log.h"
#include "base/system/clock.h"

namespace longhaul {

// The leader of a process group, a child of this process: it gets a second to end, then SIGTERM, 3 s later SIGKILL.
void end_step(pid_t pid);

class AgentStep {
 public:
  // `argv`: launcher and agent; what they print goes to log_path.
  AgentStep(std::vector<std::string> argv, std::string log_path, const Clock& clock, Logger& log);
  ~AgentStep() { end(); }
  AgentStep(const AgentStep&) = delete;
  AgentStep& operator=(const AgentStep&) = delete;

  Status start();
  // Cheap to call often. `needed`: no agent is there; as long as some are, others come one by one (ReplacementAgents).
  void look(bool needed = true);
  // Whether it was started since then, and so lately that its agents may still be on their way.
  bool may_bring_one_lost_at(std::int64_t lost_ns) const;
  void end();  // waits a second, then SIGTERM, SIGKILL; reaped
  // Its agents work for another lead: nothing of it is ended when this object is.
  void release() { pid_ = -1; }
  int starts() const { return starts_; }
  bool running() const { return pid_ > 0; }  // as of the last look
  // false: it was refused, and is started without GPUs since then.
  bool asks_for_gpus() const { return asks_for_gpus_; }

 private:
  void leave_gpus(const std::string& why);
  void end_if_it_waits();

  std::vector<std::string> argv_, without_gpus_;  // empty: it asks for none anyway, or no more
  bool asks_for_gpus_ = true;
  bool came_ = false;          // an agent of this start
  bool asked_to_end_ = false;  // one that waits for too long
  std::string log_path_;
  const Clock& clock_;
  Logger& log_;
  pid_t pid_ = -1;
  int starts_ = 0;
  std::int64_t started_ns_ = 0, next_start_ns_ = 0;
};

}  // namespace longhaul
