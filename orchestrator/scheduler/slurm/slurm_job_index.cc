#include "orchestrator/scheduler/slurm/slurm_job_index.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"

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
      "reports of this run's jobs are off by that much",
      submission_id(job), human_duration(static_cast<double>(std::abs(job.submitted_s - ours_s))),
      job.submitted_s < ours_s ? "earlier" : "later");
}

bool is_older(const SlurmJob& a, const SlurmJob& b) {
  return std::pair(a.submitted_s, number_of_job(submission_id(a))) <
         std::pair(b.submitted_s, number_of_job(submission_id(b)));
}

// Whether one of a key's jobs has the number that its submission was answered with. True where no answer came.
bool has_number(const auto& candidates, const std::string& answered) {
  const std::string number = answered.substr(0, answered.find('_'));
  return number.empty() ||
         std::ranges::any_of(candidates, [&](const auto& one) { return submission_id(*one.job) == number; });
}

std::string number_text(const std::string& answered, const std::string& job) {
  return format(
      "a submission was answered with the number {}, and its job is {}: a wrapper of sbatch answers wrongly, or "
      "slurmctld has lost the first job. Jobs are known by more than their number, so nothing is submitted twice for "
      "it",
      answered, job);
}

}  // namespace

std::string submission_key_of(const std::string& key) {
  return key.substr(0, key.find('+'));
}

SlurmIdentity identity_of(const OpenJob& open) {
  return {.key = submission_key_of(open.key),
          .id = open.id.substr(0, open.id.find('_')),
          .folder = open.folder,
          .work_dir = open.work_dir,
          .wanted_ms = open.wanted_ms,
          .answered_ms = open.answered_ms};
}

void SlurmJobIndex::know(const OpenJob& open) {
  identities_.add(longhaul::identity_of(open));
}

void SlurmJobIndex::note_id(const JobSpec& spec, const std::string& id) {
  known_[spec.key] = id;
  identities_.add({.key = spec.key,
                   .id = id,
                   .folder = spec.attempt_dir,
                   .work_dir = spec.work_dir,
                   .wanted_ms = spec.wanted_ms,
                   .answered_ms = access_.clock.wall_ms()});
}

const std::string* SlurmJobIndex::id_of(const std::string& key) const {
  const auto known = known_.find(key);
  return known == known_.end() ? nullptr : &known->second;
}

const SlurmIdentity* SlurmJobIndex::answered(const std::string& id) const {
  return identities_.answered(id.substr(0, id.find('_')));
}

std::vector<std::string> SlurmJobIndex::copies_of(const std::string& id) const {
  const auto copies = copies_.find(id);
  return copies == copies_.end() ? std::vector<std::string>() : copies->second;
}

std::string SlurmJobIndex::key_of(const SlurmJob& job) const {
  if (const SlurmIdentity* identity = identities_.find(job)) return identity->key;
  return is_key(job.comment) && !job.other_user ? job.comment : std::string();
}

void SlurmJobIndex::notice(const std::string& id, const std::string& event, const std::string& text) {
  if (std::any_of(notices_.begin(), notices_.end(), [&](const SchedulerNotice& known) { return known.id == id; }))
    return;
  access_.log.warn(format("event={} {}", id, event));
  notices_.push_back({id, text});
}

void SlurmJobIndex::notice_changes(const SlurmJob& job, const SlurmIdentity& identity) {
  if (access_.options.comments && job.comment != identity.key)
    notice("comment_changed", format("job={} key={} comment='{}'", submission_id(job), identity.key, job.comment),
           comment_text(job));
  if (submission_id(job) != identity.id || submitted_then(job, identity)) return;
  const bool earlier = job.submitted_s < identity.wanted_ms / 1000;
  const std::int64_t ours_s = (earlier ? identity.wanted_ms : identity.answered_ms) / 1000;
  notice("clock_differs", format("job={} slurm_s={} ours_s={}", submission_id(job), job.submitted_s, ours_s),
         clock_difference_text(job, ours_s));
}

// After a crash of slurmctld a number may be given again: to a job of the same user that has nothing to do with ours.
void SlurmJobIndex::note_others(const std::vector<OpenJob>& open) {
  others_.clear();
  for (const OpenJob& job : open) {
    const auto found = owners_.find(job.id.substr(0, job.id.find('_')));
    if (found != owners_.end() && found->second != submission_key_of(job.key)) others_.insert(job.id);
  }
  if (const std::string line = access_.port.skipped(); !line.empty())
    notice("lines_skipped", format("line='{}'", line),
           format("something on this site prints lines of its own beside the answers of Slurm's commands, which are "
                  "skipped: '{}'",
                  line));
}

Result<bool> SlurmJobIndex::is_ours(const std::string& id) {
  if (others_.contains(id)) return false;
  const std::string number = id.substr(0, id.find('_'));
  const SlurmIdentity* identity = identities_.answered(number);
  const auto listed = owners_.find(number);
  if (listed != owners_.end() && (!identity || listed->second == identity->key)) return true;
  LH_TRY(const auto jobs, access_.port.job(id));
  return std::any_of(jobs.begin(), jobs.end(), [&](const SlurmJob& job) {
    return covers(job, id) && !job.other_user && (!identity || known_by(job, *identity) != KnownBy::nothing);
  });
}

// Of two of one key (a submission that came through late, a script that somebody submitted by hand): the one whose lead
// holds the attempt, which is the only one that works; then one that is alive; then the one that was reported to
// us; else the oldest.
bool SlurmJobIndex::is_preferred(const Seen& one, const Seen& other, const std::string& key,
                                 const std::string& claimed_by) const {
  const bool claims = !claimed_by.empty() && one.id == claimed_by, other_claims = other.id == claimed_by;
  if (claims != (other_claims && !claimed_by.empty())) return claims;
  if (is_live(*one.job) != is_live(*other.job)) return is_live(*one.job);
  const auto known = known_.find(submission_key_of(key));
  const bool ours = known != known_.end() && known->second == submission_id(*one.job);
  const bool theirs = known != known_.end() && known->second == submission_id(*other.job);
  if (ours != theirs) return ours;
  return is_older(*one.job, *other.job);
}

SlurmJobIndex::SeenByKey SlurmJobIndex::index(const std::vector<SlurmJob>& jobs, const OpenByKey& open) {
  std::map<std::string, std::vector<Seen>> all;
  owners_.clear();
  for (const SlurmJob& job : jobs) {
    const std::string key = key_of(job);
    owners_.emplace(submission_id(job), key);
    if (key.empty()) continue;
    if (const SlurmIdentity* identity = identities_.find(job)) notice_changes(job, *identity);
    if (job.array_id.empty()) {
      all[key].push_back({&job, job.id});
      continue;
    }
    for (const int task : expand_indices(job.array_tasks))
      all[array_task_key(key, task)].push_back({&job, format("{}_{}", job.array_id, task)});
  }
  SeenByKey seen;
  copies_.clear();
  for (const auto& [key, candidates] : all) {
    std::string claimed_by;
    const auto wanted = open.find(key);
    if (candidates.size() > 1 && wanted != open.end()) note_copies(candidates);
    if (candidates.size() > 1 && wanted != open.end()) claimed_by = id_left_by_newest_lead(wanted->second->attempt_dir);
    const Seen* best = &candidates.front();
    for (const Seen& one : candidates)
      if (&one != best && is_preferred(one, *best, key, claimed_by)) best = &one;
    seen.emplace(key, *best);
    if (wanted != open.end() && is_live(*best->job) && !has_number(candidates, wanted->second->id))
      notice("number_differs", format("answered={} job={} key={}", wanted->second->id, best->id, key),
             number_text(wanted->second->id, best->id));
    if (!claimed_by.empty() && best->id == claimed_by && is_live(*best->job)) cancel_others(key, candidates, *best);
  }
  return seen;
}

void SlurmJobIndex::note_copies(const std::vector<Seen>& candidates) {
  for (const Seen& one : candidates)
    for (const Seen& other : candidates)
      if (&one != &other && is_live(*other.job)) copies_[one.id].push_back(other.id);
}

// They would wait for their nodes only to find the attempt claimed. One that runs finds it by itself. Whoever only
// looks cancels nothing.
void SlurmJobIndex::cancel_others(const std::string& key, const std::vector<Seen>& candidates, const Seen& best) {
  if (!access_.acts()) return;
  for (const Seen& one : candidates) {
    if (one.id == best.id || !is_pending(*one.job) || !duplicates_.insert(one.id).second) continue;
    const Status may = access_.may_act();
    const Status sent = may.ok() ? access_.port.cancel(one.id) : may;
    access_.log.warn(format("event=duplicate_job key={} job={} led_by={} next={}", key, one.id, best.id,
                            sent.ok() ? "cancelled" : "try_again why='" + sent.error().message() + "'"));
    if (!sent.ok()) duplicates_.erase(one.id);
  }
}

}  // namespace longhaul
