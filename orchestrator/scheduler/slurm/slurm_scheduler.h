// Room orchestrator/scheduler/slurm
// The Scheduler over a Slurm cluster: one job for every key, whatever answer of Slurm is lost.
// slurm_scheduler.h is the order of a look; slurm_submitter.h, slurm_job_index.h, job_ledger.h, missing_jobs.h and
// slurm_cancellation.h are its parts.
// slurm_identity.h says by what a job is known as ours; site_probe.h compares a cluster with its site file.
// It does not know the run's log: keys and open jobs are handed to it.
//
// Jobs of a Slurm cluster. Slurm's memory is short and its answers may be lost, so nothing is concluded from silence:
//   - a job carries its submission's key, and is known by other marks where the site takes that away
//     (slurm_identity.h); a key that may be known is looked for in one snapshot of all our jobs before it is submitted,
//     and believed absent only when it is still missing after an unanswered submission has had time to appear, counted
//     from Slurm's first answer: while slurmctld is silent nothing appears;
//   - a job's end is known from its own record, from Slurm, from accounting, in this order. A record may reach us later
//     than Slurm's answer (file systems lag); a job that Slurm has forgotten is lost only after a while;
//   - of two jobs with one key the one whose lead has claimed the attempt is the attempt's; the other one is cancelled
//     while it waits, and one whose number we have is given up for it;
//   - a native dependency is read back: Slurm 22.05 silently drops one on a job that it has forgotten.
// The job's script gets the attempt folder as its only argument. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/scheduler/slurm/job_ledger.h"
#include "orchestrator/scheduler/slurm/missing_jobs.h"
#include "orchestrator/scheduler/slurm/slurm_access.h"
#include "orchestrator/scheduler/slurm/slurm_cancellation.h"
#include "orchestrator/scheduler/slurm/slurm_job_index.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"
#include "orchestrator/scheduler/slurm/slurm_submitter.h"

namespace longhaul {

class SlurmScheduler final : public Scheduler {
 public:
  SlurmScheduler(std::unique_ptr<SlurmPort> port, SlurmSchedulerOptions options, Clock& clock, Logger& log);

  // A job that has left its record or claim but that Slurm no longer knows: the id that its lead wrote down, or
  // "gone-<key>".
  std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs) override {
    return submitter_.submit(specs);
  }
  // Ended jobs are reported only if they are in `open`: their records lie in folders that only the caller knows.
  Result<std::vector<JobInfo>> snapshot(const std::vector<OpenJob>& open) override;
  Status cancel(const std::string& id) override { return cancellation_.cancel(id); }
  Status release(const std::string& id) override;
  Status exclude_only(const std::string& id, const std::vector<std::string>& hosts) override;
  Result<std::vector<HostSeen>> hosts() override;
  bool may_be_under_way() const override { return submitter_.may_be_under_way(); }
  std::vector<SchedulerNotice> notices() const override { return index_.notices(); }
  std::int64_t poll_interval_ms() const override { return access_.options.poll_interval_ms; }
  int array_tasks_max() const override { return submitter_.array_tasks_max(); }

  SlurmPort& port() { return *port_; }

 private:
  // Of a job in Slurm's list that lives; of `open` also whether its lead has written its record. May be null.
  JobInfo live_info(const std::string& key, const SlurmJobIndex::Seen& seen, const OpenJob* open);
  void look_at_ended(const OpenJob& open, const SlurmJobIndex::Seen& seen, SlurmRound& round);

  std::unique_ptr<SlurmPort> port_;
  SlurmAccess access_;
  SlurmJobIndex index_;
  mutable SlurmSubmitter submitter_;
  SlurmCancellation cancellation_;
  JobLedger ledger_;
  MissingJobs missing_;
};

}  // namespace longhaul
