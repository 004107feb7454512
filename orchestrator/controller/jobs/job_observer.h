// What a controller sees of its jobs: the scheduler's answer when it is due, in between the records of jobs that rang,
// and what ended jobs have left behind.
#pragma once

#include <ctime>
#include <functional>
#include <optional>
#include <vector>

#include "contracts/records/record.h"
#include "orchestrator/controller/jobs/artifact_observer.h"
#include "orchestrator/controller/jobs/controlled_run.h"
#include "orchestrator/controller/jobs/poll_pace.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

class JobObserver {
 public:
  // `unwritten`: the record of a job at its end whose lead could not write it: believed as if it lay in its place.
  JobObserver(const ControlledRun& run, ArtifactUse use, std::optional<JobRecord> unwritten)
      : run_(run), use_(std::move(use)), unwritten_(std::move(unwritten)) {}
  // The scheduler outlives it. `ask_maintenance`: start of the next one in ms; may be empty.
  void open(Scheduler& scheduler, std::function<std::int64_t()> ask_maintenance, std::uint64_t spread_seed);

  // How `open` jobs stand, and for all that have ended what they have saved and made.
  Status look(const std::vector<OpenJob>& open, Observations& seen);
  // How many hosts are left for jobs that exclude some. Where nobody answers, nothing is known, and all suspects are
  // left out.
  void look_for_hosts(Observations& seen);
  // Start of the next maintenance, asked for now and then; nullopt: it was not asked for now. Only what can go on in
  // another job is shortened, and only what is about to be submitted needs to know.
  std::optional<std::int64_t> look_for_maintenance();

  bool is_silent() const { return silent_; }  // the scheduler did not answer the last time
  void note_round(bool changed) { changed_ = changed; }
  void ask_again() { pace_.ask_now(); }
  std::int64_t poll_interval_ms() const { return pace_.interval_ms(); }

 private:
  Status ask_scheduler(const std::vector<OpenJob>& open, Observations& seen);
  void take_unwritten(const std::vector<OpenJob>& open, Observations& seen) const;
  Status look_at_saved(const LedgerStage& stage, const JobInfo& job, Observations& seen) const;

  ControlledRun run_;
  ArtifactUse use_;
  std::optional<JobRecord> unwritten_;
  Scheduler* scheduler_ = nullptr;
  std::function<std::int64_t()> ask_maintenance_;
  std::int64_t maintenance_asked_ns_ = 0;
  std::vector<HostSeen> hosts_;  // as they were last seen
  std::int64_t hosts_asked_ns_ = 0;
  PollPace pace_;    // when the scheduler is asked again
  timespec rung_{};  // when a job last rang the doorbell, as far as we have looked
  bool silent_ = false;
  bool changed_ = true;  // by the last round
};

}  // namespace longhaul
