// Jobs in Slurm's list: which are ours, and what is done to those and to no others.
#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {
namespace {

std::string comment_text(const SlurmJob& job) {
  return format(
      "this site changes --comment: job {} has the comment '{}'. Jobs are known by their name, their script's "
      "argument and their number; identity = \"name\" in the site file gives them no comment",
      submission_id(job), job.comment);
}

std::string clock_difference_text(const SlurmJob& job, std::int64_t ours_s) {
  return format(
      "slurmctld's clock is not this machine's: it says that job {} was submitted {} {} than it was. Times that Slurm "
      "tells of this run's jobs are off by that much",
      submission_id(job), human_duration(static_cast<double>(std::abs(job.submitted_s - ours_s))),
      job.submitted_s < ours_s ? "earlier" : "later");
}

}  // namespace

// "" of a job that is nobody's submission.
std::string SlurmScheduler::key_of(const SlurmJob& job) const {
  if (const SlurmIdentity* identity = identities_.find(job)) return identity->key;
  return is_key(job.comment) && !job.other_user ? job.comment : std::string();
}

void SlurmScheduler::notice(const std::string& id, const std::string& event, const std::string& text) {
  if (std::any_of(notices_.begin(), notices_.end(), [&](const SchedulerNotice& known) { return known.id == id; }))
    return;
  log_.warn(format("event={} {}", id, event));
  notices_.push_back({id, text});
}

void SlurmScheduler::notice_changes(const SlurmJob& job, const SlurmIdentity& identity) {
  if (options_.comments && job.comment != identity.key)
    notice("comment_changed", format("job={} key={} comment='{}'", submission_id(job), identity.key, job.comment),
           comment_text(job));
  if (submission_id(job) != identity.id || submitted_then(job, identity)) return;
  const bool earlier = job.submitted_s < identity.wanted_ms / 1000;
  const std::int64_t ours_s = (earlier ? identity.wanted_ms : identity.answered_ms) / 1000;
  notice("clock_differs", format("job={} slurm_s={} ours_s={}", submission_id(job), job.submitted_s, ours_s),
         clock_difference_text(job, ours_s));
}

// After a crash of slurmctld a number may be given again: to a job of the same user that has nothing to do with ours.
void SlurmScheduler::note_others(const std::vector<OpenJob>& open) {
  others_.clear();
  for (const OpenJob& job : open) {
    const auto found = owners_.find(job.id.substr(0, job.id.find('_')));
    if (found != owners_.end() && found->second != job.key.substr(0, job.key.find('+'))) others_.insert(job.id);
  }
  if (const std::string line = port_->skipped(); !line.empty())
    notice("lines_skipped", format("line='{}'", line),
           format("something on this site prints lines of its own beside the answers of Slurm's commands, which are "
                  "skipped: '{}'",
                  line));
}

// Whether the job of this number is the one that was submitted. not_found: slurmctld knows no such job.
Result<bool> SlurmScheduler::is_ours(const std::string& id) {
  if (others_.contains(id)) return false;
  const std::string number = id.substr(0, id.find('_'));
  const SlurmIdentity* identity = identities_.answered(number);
  const auto listed = owners_.find(number);
  if (listed != owners_.end() && (!identity || listed->second == identity->key)) return true;
  LH_TRY(const auto jobs, port_->job(id));
  return std::any_of(jobs.begin(), jobs.end(), [&](const SlurmJob& job) {
    return covers(job, id) && !job.other_user && (!identity || known_by(job, *identity) != KnownBy::nothing);
  });
}

// Of a submission whose number is not its job's: the job that it is.
Status SlurmScheduler::cancel_in_its_place(const std::string& id) {
  log_.warn(format("event=cancel_left_out job={} reason='the number is another job's'", id));
  const SlurmIdentity* identity = identities_.answered(id.substr(0, id.find('_')));
  if (!identity) return {};
  LH_TRY(const auto jobs, port_->jobs());
  const std::size_t task = id.find('_');
  for (const SlurmJob& job : jobs) {
    if (!is_live(job) || identities_.find(job) != identity) continue;
    const std::string found = submission_id(job) + (task == std::string::npos ? "" : id.substr(task));
    if (!covers(job, found)) continue;
    log_.warn(format("event=cancelled_in_its_place job={} key={} answered={}", found, identity->key, id));
    if (const Status sent = port_->cancel(found); !sent.ok() && sent.error().code != ErrorCode::not_found) return sent;
  }
  return {};
}

// Of a submission that came through twice, before one of the two has claimed the attempt.
void SlurmScheduler::cancel_copies(const std::string& id) {
  const auto copies = copies_.find(id);
  if (copies == copies_.end()) return;
  for (const std::string& copy : copies->second) {
    const Status sent = port_->cancel(copy);
    log_.warn(format("event=duplicate_job job={} cancelled_with={} next={}", copy, id,
                     sent.ok() ? "cancelled" : "nothing why='" + sent.error().message() + "'"));
  }
}

Status SlurmScheduler::cancel(const std::string& id) {
  if (starts_with(id, "gone-")) return {};
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  const auto refused = refused_cancels_.find(id);
  if (refused != refused_cancels_.end() && clock_.monotonic_ns() < refused->second.again_ns) return refused->second.why;
  const auto ours = is_ours(id);
  // Slurm forgets only what has ended; and where it has another job, that is not ours to cancel.
  if (!ours.ok() && ours.error().code != ErrorCode::not_found) return ours.error();
  if (ours.ok() && !*ours) return cancel_in_its_place(id);
  Status cancelled = ours.ok() ? port_->cancel(id) : Status(ours.error());
  if (!cancelled.ok() && cancelled.error().code == ErrorCode::not_found) return {};
  if (cancelled.ok()) cancelled_.insert(id);
  if (cancelled.ok()) cancel_copies(id);
  if (cancelled.ok() || cancelled.error().code == ErrorCode::unavailable) return cancelled;
  refused_cancels_.insert_or_assign(
      id, RefusedCancel{cancelled.error(), clock_.monotonic_ns() + options_.poll_interval_ms * 1'000'000});
  return cancelled;
}

Status SlurmScheduler::release(const std::string& id) {
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  if (others_.contains(id)) return make_error(ErrorCode::not_found, "the number " + id + " is another job's");
  return port_->release(id);
}

}  // namespace longhaul
