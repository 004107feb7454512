// Two jobs of one key: which of them is the attempt's, and what becomes of the other.
#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {
namespace {

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

// Of two of one key (a submission that came through late, a script that somebody submitted by hand): the one whose lead
// holds the attempt, which is the only one that works; then one that is alive; then the one that we were told of; else
// the oldest.
bool SlurmScheduler::is_preferred(const Seen& one, const Seen& other, const std::string& key,
                                  const std::string& claimed_by) const {
  const bool claims = !claimed_by.empty() && one.id == claimed_by, other_claims = other.id == claimed_by;
  if (claims != (other_claims && !claimed_by.empty())) return claims;
  if (is_live(*one.job) != is_live(*other.job)) return is_live(*one.job);
  const auto known = known_.find(key.substr(0, key.find('+')));
  const bool ours = known != known_.end() && known->second == submission_id(*one.job);
  const bool theirs = known != known_.end() && known->second == submission_id(*other.job);
  if (ours != theirs) return ours;
  return is_older(*one.job, *other.job);
}

SlurmScheduler::SeenByKey SlurmScheduler::index(const std::vector<SlurmJob>& jobs, const OpenByKey& open) {
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

void SlurmScheduler::note_copies(const std::vector<Seen>& candidates) {
  for (const Seen& one : candidates)
    for (const Seen& other : candidates)
      if (&one != &other && is_live(*other.job)) copies_[one.id].push_back(other.id);
}

// They would wait for their nodes only to find the attempt claimed. One that runs finds it by itself. Whoever only
// looks cancels nothing.
void SlurmScheduler::cancel_others(const std::string& key, const std::vector<Seen>& candidates, const Seen& best) {
  if (!acts()) return;
  for (const Seen& one : candidates) {
    if (one.id == best.id || !is_pending(*one.job) || !duplicates_.insert(one.id).second) continue;
    const Status may = may_act();
    const Status sent = may.ok() ? port_->cancel(one.id) : may;
    log_.warn(format("event=duplicate_job key={} job={} led_by={} next={}", key, one.id, best.id,
                     sent.ok() ? "cancelled" : "try_again why='" + sent.error().message() + "'"));
    if (!sent.ok()) duplicates_.erase(one.id);
  }
}

}  // namespace longhaul
