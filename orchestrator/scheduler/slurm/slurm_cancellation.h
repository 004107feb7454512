// Cancellation, from both sides: what we cancel, and who cancelled a job that we did not. A user who cancels a job of
// his own means it; an administrator who clears a node, or Slurm itself ("CANCELLED by 0"), does not mean that the run
// should end.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "orchestrator/scheduler/slurm/slurm_access.h"
#include "orchestrator/scheduler/slurm/slurm_job_index.h"

namespace longhaul {

class SlurmCancellation {
 public:
  SlurmCancellation(const SlurmAccess& access, SlurmJobIndex& index) : access_(access), index_(index) {}

  // As Scheduler::cancel.
  Status cancel(const std::string& id);
  bool was_asked_for(const std::string& id) const;  // by this process, of the job or of its array
  bool is_ours(const OpenJob& open, const std::string& id) const;
  // How a job ended that is in Slurm's list as `job`; nullopt: it was cancelled, and by whom is not known yet.
  std::optional<SchedulerEnd> end_of(const OpenJob& open, const SlurmJob& job, const std::string& id);
  // Of a job that was cancelled by somebody else than us, and whose lead is still at its last duties. `none`: it is
  // looked at again when it is over.
  SchedulerEnd end_of_alive(const OpenJob& open, const std::string& id);

 private:
  // One that Slurm refuses (another user's job) is asked for again at the pace of snapshots.
  struct Refused {
    Error why;
    std::int64_t again_ns = 0;
  };
  Status cancel_in_its_place(const std::string& id);
  void cancel_copies(const std::string& id);
  std::optional<bool> by_site(const OpenJob& open, const std::string& id);

  const SlurmAccess& access_;
  SlurmJobIndex& index_;
  std::set<std::string> cancelled_;         // ids, by this process
  std::map<std::string, Refused> refused_;  // by id
  int keeps_accounts_ = -1;                 // 1: there is accounting to ask; -1: not known
};

}  // namespace longhaul
