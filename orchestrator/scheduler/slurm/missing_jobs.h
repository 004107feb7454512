// Open jobs that Slurm's list does not have: their records, then Slurm asked by number, then accounting. Slurm's memory
// is short, so nothing is concluded from silence: a job that it has forgotten is lost only after a while.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/scheduler/slurm/job_ledger.h"
#include "orchestrator/scheduler/slurm/slurm_access.h"
#include "orchestrator/scheduler/slurm/slurm_cancellation.h"
#include "orchestrator/scheduler/slurm/slurm_job_index.h"

namespace longhaul {

class MissingJobs {
 public:
  MissingJobs(const SlurmAccess& access, const SlurmJobIndex& index, const SlurmCancellation& cancellation,
              JobLedger& ledger)
      : access_(access), index_(index), cancellation_(cancellation), ledger_(ledger) {}

  void look_at(const OpenJob& open, SlurmRound& round);
  // Of all that were looked at and left no record: once a round.
  void settle(SlurmRound& round);

 private:
  enum class Known { alive, forgotten, anothers, not_said };
  Known ask_about(const OpenJob& open, SlurmRound& round);
  bool slurm_waited(const OpenJob& open, const SlurmRound& round);
  std::vector<OpenJob> forgotten_of(SlurmRound& round);
  std::vector<SlurmJob> accounted(const std::vector<OpenJob>& forgotten);
  JobInfo lost_info(const OpenJob& open, const std::string& id, const std::vector<SlurmJob>& accounted,
                    bool number_is_anothers);

  const SlurmAccess& access_;
  const SlurmJobIndex& index_;
  const SlurmCancellation& cancellation_;
  JobLedger& ledger_;
  std::int64_t min_job_age_ms_ = -1;
};

}  // namespace longhaul
