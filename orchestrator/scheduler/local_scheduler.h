// The scheduler of this machine: CPU slots, a queue, detached leads. Its whole state lies in files, so a killed
// controller loses nothing and the next one goes on:
//   <run>/local/<key>.json       submitted; created exclusively
//   <attempt>/claim.json         a lead took it (or cancel did, so that no lead can any more)
//   <attempt>/record.json        how it ended
// A claim whose process is gone, without a record after one more look, is a lost job. Slots are counted per run: two
// runs on one machine do not know of each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

int usable_cores();  // that this process may use

class LocalScheduler final : public Scheduler {
 public:
  // `slots`: 0 takes the cores that this process may use.
  LocalScheduler(const std::string& run_dir, int slots, Clock& clock, Logger& log);

  std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs) override;  // the id is the key
  Result<std::vector<JobInfo>> snapshot(const std::vector<OpenJob>& open) override;     // also starts what fits now
  Status cancel(const std::string& id) override;
  Status release(const std::string& id) override;
  int slots() const { return slots_; }

 private:
  struct Job {
    JobSpec spec;
    std::int64_t order = 0;  // of submission
    JobInfo info;
    ProcessId starting;           // a lead that we started and that has not claimed yet
    int starts = 0;               // by this process
    std::int64_t started_ns = 0;  // of the newest start
  };
  Result<std::string> enqueue(const JobSpec& spec);
  Status read_queue();
  void observe(Job& job);
  void start_what_fits();
  Status start_lead(Job& job);
  void give_up(Job& job);
  Status refuse_leads(const JobSpec& spec, const std::string& outcome, const std::string& cause);

  std::string folder_;
  int slots_;
  Clock& clock_;
  Logger& log_;
  std::map<std::string, Job> jobs_;  // by key; ended and lost are final and not looked at again
};

}  // namespace longhaul
