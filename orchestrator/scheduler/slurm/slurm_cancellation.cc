#include "orchestrator/scheduler/slurm/slurm_cancellation.h"

#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"

namespace longhaul {

bool is_by_site(const SlurmJob& end) {
  return end.cancelled_by >= 0 && end.cancelled_by != static_cast<std::int64_t>(::getuid());
}

bool SlurmCancellation::was_asked_for(const std::string& id) const {
  return cancelled_.contains(id) || cancelled_.contains(id.substr(0, id.find('_')));
}

// Of a submission whose number is not its job's: the job that it is.
Status SlurmCancellation::cancel_in_its_place(const std::string& id) {
  access_.log.warn(format("event=cancel_left_out job={} reason='the number is another job's'", id));
  const SlurmIdentity* identity = index_.answered(id);
  if (!identity) return {};
  LH_TRY(const auto jobs, access_.port.jobs());
  const std::size_t task = id.find('_');
  for (const SlurmJob& job : jobs) {
    if (!is_live(job) || index_.identity_of(job) != identity) continue;
    const std::string found = submission_id(job) + (task == std::string::npos ? "" : id.substr(task));
    if (!covers(job, found)) continue;
    access_.log.warn(format("event=cancelled_in_its_place job={} key={} answered={}", found, identity->key, id));
    if (const Status sent = access_.port.cancel(found); !sent.ok() && sent.error().code != ErrorCode::not_found)
      return sent;
  }
  return {};
}

// Of a submission that came through twice, before one of the two has claimed the attempt.
void SlurmCancellation::cancel_copies(const std::string& id) {
  for (const std::string& copy : index_.copies_of(id)) {
    const Status sent = access_.port.cancel(copy);
    access_.log.warn(format("event=duplicate_job job={} cancelled_with={} next={}", copy, id,
                            sent.ok() ? "cancelled" : "nothing why='" + sent.error().message() + "'"));
  }
}

Status SlurmCancellation::cancel(const std::string& id) {
  if (starts_with(id, "gone-")) return {};
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  const auto refused = refused_.find(id);
  if (refused != refused_.end() && access_.clock.monotonic_ns() < refused->second.again_ns) return refused->second.why;
  const auto ours = index_.is_ours(id);
  // Slurm forgets only what has ended; and where it has another job, that is not ours to cancel.
  if (!ours.ok() && ours.error().code != ErrorCode::not_found) return ours.error();
  if (ours.ok() && !*ours) return cancel_in_its_place(id);
  Status cancelled = ours.ok() ? access_.port.cancel(id) : Status(ours.error());
  if (!cancelled.ok() && cancelled.error().code == ErrorCode::not_found) return {};
  if (cancelled.ok()) cancelled_.insert(id);
  if (cancelled.ok()) cancel_copies(id);
  if (cancelled.ok() || cancelled.error().code == ErrorCode::unavailable) return cancelled;
  refused_.insert_or_assign(
      id, Refused{cancelled.error(), access_.clock.monotonic_ns() + access_.options.poll_interval_ms * 1'000'000});
  return cancelled;
}

bool SlurmCancellation::is_ours(const OpenJob& open, const std::string& id) const {
  Attempt attempt;
  attempt.attempt_dir = open.attempt_dir;
  return cancelled_.contains(id) || cancelled_.contains(open.id) || file_exists(attempt.cancelled_path());
}

// Slurm's list does not say who cancelled a job; accounting does, a moment later (nullopt: not yet).
std::optional<bool> SlurmCancellation::by_site(const OpenJob& open, const std::string& id) {
  if (keeps_accounts_ < 0) {
    const auto configuration = access_.port.configuration();
    if (!configuration.ok()) return std::nullopt;
    keeps_accounts_ = configuration->accounting ? 1 : 0;
  }
  if (keeps_accounts_ == 0) return false;
  const auto records = access_.port.accounted({id});
  if (!records.ok()) return std::nullopt;
  const SlurmJob* end = accounted_end(*records, id, {.key = submission_key_of(open.key)});
  if (!end || end->cancelled_by < 0) return std::nullopt;
  return is_by_site(*end);
}

SchedulerEnd SlurmCancellation::end_of_alive(const OpenJob& open, const std::string& id) {
  const auto site = by_site(open, id);
  if (!site) return access_.options.last_look ? SchedulerEnd::cancelled : SchedulerEnd::none;
  return *site ? SchedulerEnd::cancelled_by_site : SchedulerEnd::cancelled;
}

std::optional<SchedulerEnd> SlurmCancellation::end_of(const OpenJob& open, const SlurmJob& job, const std::string& id) {
  const SchedulerEnd end = scheduler_end_of(job);
  if (end != SchedulerEnd::cancelled || is_ours(open, id)) return end;
  const auto site = by_site(open, id);
  if (!site) return std::nullopt;
  return *site ? SchedulerEnd::cancelled_by_site : SchedulerEnd::cancelled;
}

}  // namespace longhaul
