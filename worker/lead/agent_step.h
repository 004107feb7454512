// The step of a job that runs the agents: started beside the ranks, and again when it ends before its time, for ranks
// go on without it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"

namespace longhaul {

// The leader of a process group, a child of this process: it gets a second to end, then SIGTERM, 3 s later SIGKILL.
void end_step(pid_t pid);

class AgentStep {
 public:
  // `argv`: launcher and agent; what they print goes to log_path.
  AgentStep(std::vector<std::string> argv, std::string log_path, const Clock& clock, Logger& log)
      : argv_(std::move(argv)), log_path_(std::move(log_path)), clock_(clock), log_(log) {}
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

 private:
  std::vector<std::string> argv_;
  std::string log_path_;
  const Clock& clock_;
  Logger& log_;
  pid_t pid_ = -1;
  int starts_ = 0;
  std::int64_t started_ns_ = 0, next_start_ns_ = 0;
};

}  // namespace longhaul
