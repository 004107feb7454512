#include "orchestrator/scheduler/slurm/missing_jobs.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"

namespace longhaul {
namespace {

constexpr int single_questions_max = 20;  // about forgotten jobs, in one round

}  // namespace

void MissingJobs::look_at(const OpenJob& open, SlurmRound& round) {
  const auto left = newest_start(open.attempt_dir);
  if (!left.ok()) return ledger_.await(open, known_id(open), left.error().message(), round);
  const int newest = *left;
  JobMemory& memory = ledger_.of(open.key);
  memory.last_restarts = std::max({memory.last_restarts, newest, open.restarts});
  if (ledger_.take_record(open, known_id(open), memory.last_restarts, SchedulerEnd::forgotten, round)) return;
  // Of an array's waiting task that is cancelled alone Slurm keeps nothing at all.
  const bool cancelled = cancellation_.was_asked_for(open.id);
  if (newest < 0 && cancelled) {
    JobInfo info;
    info.id = open.id;
    info.key = open.key;
    info.state = JobState::ended;
    info.end = SchedulerEnd::cancelled;
    info.record = never_started_record(open.key, open.id, 0, access_.clock.wall_ms(), "Slurm no longer has it");
    info.started_ms = info.record->started_ms;
    return ledger_.conclude(std::move(info), round);
  }
  // A submission that nobody answered and nobody sees: submit() finds out.
  if (open.id.empty() && newest < 0) return;
  round.missing.push_back(open);
}

// Asked for by itself. Only a plain "no such job" lets it be forgotten: it may be there after all, or nobody answers.
MissingJobs::Known MissingJobs::ask_about(const OpenJob& open, SlurmRound& round) {
  if (!is_job_id(open.id)) return Known::forgotten;
  if (round.single_questions >= single_questions_max) return Known::not_said;  // politeness: the rest in the next round
  ++round.single_questions;
  const auto found = access_.port.job(open.id);
  if (!found.ok()) return found.error().code == ErrorCode::not_found ? Known::forgotten : Known::not_said;
  const std::string key = submission_key_of(open.key);
  bool covered = false;
  for (const SlurmJob& job : *found) {
    if (!covers(job, open.id)) continue;
    if (index_.key_of(job) == key) return Known::alive;
    covered = true;
  }
  // Of another user, or given again after a crash of slurmctld.
  return covered ? Known::anothers : Known::forgotten;
}

// Slurm forgets a job some time after its end. Where that time is as long as ours, no more has to be waited for a job
// that was not seen alive by this process: one that was, and is gone, was lost by a slurmctld that crashed.
bool MissingJobs::slurm_waited(const OpenJob& open, const SlurmRound& round) {
  if (ledger_.of(open.key).seen_alive || !is_job_id(open.id)) return false;
  // A task is missing from an array that is there: it may have been cancelled just now.
  if (round.submissions.contains(open.id.substr(0, open.id.find('_')))) return false;
  if (min_job_age_ms_ < 0) {
    const auto configuration = access_.port.configuration();
    if (!configuration.ok()) return false;
    min_job_age_ms_ = configuration->min_job_age_s * 1000;
  }
  return min_job_age_ms_ >= access_.options.record_grace_ms;
}

// Whose record nobody has to wait for any more; the others are awaited.
std::vector<OpenJob> MissingJobs::forgotten_of(SlurmRound& round) {
  std::vector<OpenJob> forgotten;
  for (const OpenJob& open : round.missing) {
    const std::string id = known_id(open);
    const bool waited = ledger_.waited_long_enough(open);
    const bool over = waited || (slurm_waited(open, round) && !ledger_.is_unread(open.key));
    const Known known = over ? ask_about(open, round) : Known::not_said;
    if (known == Known::anothers) round.anothers.insert(open.key);
    // Where we have another job's number, ours may be on its way to Slurm's list.
    if (known != Known::forgotten && !(known == Known::anothers && waited)) {
      ledger_.await(open, id, "Slurm's list does not have it, its record is awaited", round);
      continue;
    }
    forgotten.push_back(open);
  }
  return forgotten;
}

std::vector<SlurmJob> MissingJobs::accounted(const std::vector<OpenJob>& forgotten) {
  std::vector<std::string> ids;
  for (const OpenJob& open : forgotten)
    if (is_job_id(open.id)) ids.push_back(open.id);
  if (ids.empty()) return {};
  auto jobs = access_.port.accounted(ids);
  if (jobs.ok()) return std::move(jobs).value();
  access_.log.info(format("event=accounting_unavailable jobs={} error='{}'", ids.size(), jobs.error().message()));
  return {};
}

void MissingJobs::settle(SlurmRound& round) {
  const std::vector<OpenJob> forgotten = forgotten_of(round);
  const std::vector<SlurmJob> records = accounted(forgotten);
  for (const OpenJob& open : forgotten) {
    // The record may have come while Slurm was asked.
    const std::string id = known_id(open);
    if (ledger_.take_record(open, id, ledger_.of(open.key).last_restarts, SchedulerEnd::forgotten, round)) continue;
    ledger_.conclude(lost_info(open, id, records, round.anothers.contains(open.key)), round);
  }
}

JobInfo MissingJobs::lost_info(const OpenJob& open, const std::string& id, const std::vector<SlurmJob>& accounted,
                               bool number_is_anothers) {
  const JobMemory& memory = ledger_.of(open.key);
  JobInfo info;
  info.id = id;
  info.key = open.key;
  info.state = JobState::lost;
  info.started_ms = memory.last_started_ms;
  info.restarts = memory.last_restarts;
  info.nodes = memory.last_nodes;
  info.end = SchedulerEnd::forgotten;
  const SlurmIdentity identity = identity_of(open);
  const SlurmJob* record = accounted_end(accounted, open.id, identity);
  if (record && number_is_anothers && known_by(*record, identity) == KnownBy::nothing) record = nullptr;
  if (record) {
    info.end = scheduler_end_of(*record);
    if (info.end == SchedulerEnd::cancelled && is_by_site(*record)) info.end = SchedulerEnd::cancelled_by_site;
    info.nodes = record->nodes;
    if (info.started_ms == 0 && !record->nodes.empty()) info.started_ms = record->started_s * 1000;
    info.cause = end_text(*record, "accounting") + ledger_.no_record(open.key);
  } else if (number_is_anothers) {
    info.cause = format("the number {} is another job's, and no job of ours is this attempt", open.id) +
                 ledger_.no_record(open.key);
  } else if (ledger_.is_unread(open.key)) {
    info.cause = "Slurm no longer knows the job" + ledger_.no_record(open.key);
  } else {
    info.cause = "Slurm no longer knows the job and its lead left no record";
  }
  return info;
}

}  // namespace longhaul
