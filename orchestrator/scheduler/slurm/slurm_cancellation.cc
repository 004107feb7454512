// Who cancelled a job: we, its user by hand, or the site. A user who cancels a job of his own means it; an
// administrator who clears a node, or Slurm itself ("CANCELLED by 0"), does not mean that the run should end.
#include <unistd.h>

#include "base/files/files.h"
#include "contracts/records/attempt.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {

bool is_by_site(const SlurmJob& end) {
  return end.cancelled_by >= 0 && end.cancelled_by != static_cast<std::int64_t>(::getuid());
}

bool SlurmScheduler::is_our_cancellation(const OpenJob& open, const std::string& id) const {
  Attempt attempt;
  attempt.attempt_dir = open.attempt_dir;
  return cancelled_.contains(id) || cancelled_.contains(open.id) || file_exists(attempt.cancelled_path());
}

// Slurm's list does not say who cancelled a job; accounting does, a moment later (nullopt: not yet).
std::optional<bool> SlurmScheduler::cancelled_by_site(const OpenJob& open, const std::string& id) {
  if (keeps_accounts_ < 0) {
    const auto configuration = port_->configuration();
    if (!configuration.ok()) return std::nullopt;
    keeps_accounts_ = configuration->accounting ? 1 : 0;
  }
  if (keeps_accounts_ == 0) return false;
  const auto records = port_->accounted({id});
  if (!records.ok()) return std::nullopt;
  const SlurmJob* end = accounted_end(*records, id, {.key = open.key.substr(0, open.key.find('+'))});
  if (!end || end->cancelled_by < 0) return std::nullopt;
  return is_by_site(*end);
}

// Of a job that was cancelled by somebody else than us, and whose lead is still at its last duties. `none`: it is
// looked at again when it is over.
SchedulerEnd SlurmScheduler::cancelled_alive(const OpenJob& open, const std::string& id) {
  const auto by_site = cancelled_by_site(open, id);
  if (!by_site) return options_.last_look ? SchedulerEnd::cancelled : SchedulerEnd::none;
  return *by_site ? SchedulerEnd::cancelled_by_site : SchedulerEnd::cancelled;
}

// nullopt: it was cancelled, and by whom is not known yet.
std::optional<SchedulerEnd> SlurmScheduler::end_of(const OpenJob& open, const Seen& seen) {
  const SchedulerEnd end = scheduler_end_of(*seen.job);
  if (end != SchedulerEnd::cancelled || is_our_cancellation(open, seen.id)) return end;
  const auto by_site = cancelled_by_site(open, seen.id);
  if (!by_site) return std::nullopt;
  return *by_site ? SchedulerEnd::cancelled_by_site : SchedulerEnd::cancelled;
}

}  // namespace longhaul
