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

class AgentStep {
 public:
  // `argv`: launcher and agent; what they print goes to log_path.
  AgentStep(std::vector<std::string> argv, std::string log_path, const Clock& clock, Logger& log)
      : argv_(std::move(argv)), log_path_(std::move(log_path)), clock_(clock), log_(log) {}
  ~AgentStep() { end(); }
  AgentStep(const AgentStep&) = delete;
  AgentStep& operator=(const AgentStep&) = delete;

  Status start();
  // Cheap to call often.
  void look();
  void end();  // waits a second, then SIGTERM, SIGKILL; reaped
  int starts() const { return starts_; }

 private:
  std::vector<std::string> argv_;
  std::string log_path_;
  const Clock& clock_;
  Logger& log_;
  pid_t pid_ = -1;
  int starts_ = 0;
  std::int64_t next_start_ns_ = 0;
};

}  // namespace longhaul
