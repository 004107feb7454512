// The eyes on one host: a program that looks at it again and again (`longhaul-worker health --watch`), and what it
// said. A process of its own, for a look may wait for a GPU's driver or a dead file system for good: whoever owns the
// watch is never kept waiting, and one that is silent for too long is ended, reported, and started again once it is
// gone.
//
// Owned by an agent, or by the lead where there are no agents. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/records/attempt.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

struct HealthWatchOptions {
  std::vector<std::string> program;  // writes one line of JSON for each look; empty: the host is not looked at
  std::int64_t silent_max_ms = 120'000;
};
// Of the job's settings. The file systems of its stage, and of the copies that a training keeps on its nodes
// (checkpoint.local_dir), have to answer, and the GPUs that it asked for have to be there. `task`: Task::settings; null
// where the task is not known.
HealthWatchOptions health_watch_options(const Attempt& attempt, const Value& task, const std::string& worker_program);

class HealthWatch {
 public:
  HealthWatch(HealthWatchOptions options, Clock& clock, Logger& log);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  // Takes what was said. Never waits. The program is started by the first call.
  void look();
  // Something that the owner found by itself: a clock that is off.
  void add(const HealthFinding& finding);
  // The job's processes on this host, whose GPUs they are; sent to the program, which takes all others for foreign,
  // with their descendants. Before the first call it judges none.
  void set_job_pids(std::set<int> pids);
  const HealthReport& report() const { return report_; }

 private:
  void start();
  void take(const std::string& line);
  void report_removed(const Value& one);
  void read_lines();
  void end_program();
  void report_job_pids();

  HealthWatchOptions options_;
  Clock& clock_;
  Logger& log_;
  HealthReport report_;
  pid_t pid_ = -1;
  bool killed_ = false;
  FileDescriptor lines_, orders_;
  std::optional<std::set<int>> job_pids_;
  bool job_pids_sent_ = false;
  std::string unread_;
  std::int64_t said_ns_ = 0, next_start_ns_ = 0, serial_ = 0;
};

}  // namespace longhaul
