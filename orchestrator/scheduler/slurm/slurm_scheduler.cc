#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/names/reason_names.h"
#include "orchestrator/scheduler/slurm/slurm_hosts.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

SlurmScheduler::SlurmScheduler(std::unique_ptr<SlurmPort> port, SlurmSchedulerOptions options, Clock& clock,
                               Logger& log)
    : port_(std::move(port)),
      access_{*port_, options, clock, log, [this] { return may_act(); }, [this] { return acts(); }},
      index_(access_),
      submitter_(access_, index_),
      cancellation_(access_, index_),
      ledger_(access_),
      missing_(access_, index_, cancellation_, ledger_) {}

Result<std::vector<JobInfo>> SlurmScheduler::snapshot(const std::vector<OpenJob>& open) {
  const auto jobs = submitter_.all_jobs();
  if (!jobs.ok()) return jobs.error();
  SlurmJobIndex::OpenByKey open_by_key;
  for (const OpenJob& job : open) {
    open_by_key.emplace(job.key, &job);
    index_.know(job);
  }
  const SlurmJobIndex::SeenByKey seen = index_.index(*jobs, open_by_key);
  ledger_.forget_all_but(open_by_key);

  SlurmRound round;
  for (const SlurmJob& job : *jobs)
    if (!job.array_id.empty()) round.submissions.insert(job.array_id);
  for (const auto& [key, found] : seen) {
    if (!is_live(*found.job)) continue;
    const auto wanted = open_by_key.find(key);
    const OpenJob* job = wanted == open_by_key.end() ? nullptr : wanted->second;
    if (job && ledger_.of(key).final) continue;
    JobInfo info = live_info(key, found, job);
    if (info.state != JobState::ended) round.infos.emplace_back(found.job->submitted_s, std::move(info));
  }
  for (const OpenJob& job : open) {
    JobMemory& memory = ledger_.of(job.key);
    const auto found = seen.find(job.key);
    if (memory.final) {
      round.infos.emplace_back(found == seen.end() ? 0 : found->second.job->submitted_s, *memory.final);
    } else if (found == seen.end()) {
      missing_.look_at(job, round);
    } else if (!is_live(*found->second.job)) {
      look_at_ended(job, found->second, round);
    }
  }
  missing_.settle(round);
  ledger_.name_lost_nodes(round);
  index_.note_others(open);
  std::stable_sort(round.infos.begin(), round.infos.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, number_of_job(a.second.id)) < std::pair(b.first, number_of_job(b.second.id));
  });
  std::vector<JobInfo> infos;
  infos.reserve(round.infos.size());
  for (auto& [submitted, info] : round.infos) infos.push_back(std::move(info));
  return infos;
}

JobInfo SlurmScheduler::live_info(const std::string& key, const SlurmJobIndex::Seen& seen, const OpenJob* open) {
  const SlurmJob& job = *seen.job;
  JobInfo info;
  info.id = seen.id;
  info.key = key;
  info.state = is_pending(job) ? JobState::queued : JobState::running;
  info.reason = job.reason;
  // What a person holds is not ours to release.
  const bool by_person = job.reason == "JobHeldUser" || job.reason == "JobHeldAdmin";
  info.held = info.state == JobState::queued && !by_person &&
              (job.held || job.reason.find("requeued_held") != std::string::npos);
  if (info.state == JobState::queued) {
    info.given_up = wait_reason(job.reason) == WaitReason::given_up;
    info.advice = wait_advice(job.reason);
  }
  info.restarts = job.restarts;
  info.nodes = job.nodes;
  if (info.state == JobState::running) info.started_ms = our_ms(job.started_s, job, index_.identity_of(job));
  if (!open) return info;
  JobMemory& memory = ledger_.of(key);
  memory.missing_since_ns = -1;
  memory.seen_alive = true;
  if (info.state == JobState::running) {
    // The lead's own record of when it began, looked for until it is there.
    if (memory.claim_restarts != job.restarts) {
      const auto claim = read_claim(claim_path(open->attempt_dir, job.restarts));
      if (claim.ok()) {
        memory.claim_ms = claim->started_ms;
        memory.claim_restarts = job.restarts;
      }
    }
    if (memory.claim_restarts == job.restarts && memory.claim_ms > 0) info.started_ms = memory.claim_ms;
  }
  memory.last_state = info.state;
  memory.last_started_ms = info.started_ms;
  memory.note_nodes(job);
  // A lead that has written its record may still be at its last duties, the next round of the controller among them.
  if (info.state == JobState::running) {
    auto record = read_record(record_path(open->attempt_dir, job.restarts));
    if (record.ok()) info.end = job.ends_as.empty() ? SchedulerEnd::none : scheduler_end_of(job);
    // Why it was asked to stop, only Slurm's own end says, and by whom it was cancelled, only accounting.
    const bool interrupted = record.ok() && classify_end(*record, true) == FaultClass::interrupted;
    if (interrupted && info.end == SchedulerEnd::cancelled && !cancellation_.is_ours(*open, seen.id))
      info.end = cancellation_.end_of_alive(*open, seen.id);
    if (record.ok() && (!interrupted || info.end != SchedulerEnd::none)) {
      info.state = JobState::ended;
      info.started_ms = record->started_ms;
      info.record = std::move(record).value();
      if (!info.record->nodes.empty()) info.nodes = info.record->nodes;  // Slurm shows those that are left
      memory.final = info;
    }
  }
  return info;
}

void SlurmScheduler::look_at_ended(const OpenJob& open, const SlurmJobIndex::Seen& seen, SlurmRound& round) {
  const SlurmJob& job = *seen.job;
  const SlurmIdentity* identity = index_.identity_of(job);
  const std::int64_t ended_ms = our_ms(job.ended_s, job, identity);
  JobMemory& memory = ledger_.of(open.key);
  memory.note_nodes(job);
  const auto known_end = cancellation_.end_of(open, job, seen.id);
  if (!known_end && !ledger_.waited_long_enough(open))
    return ledger_.await(open, seen.id, "cancelled in Slurm; accounting is asked by whom", round);
  const SchedulerEnd end = known_end.value_or(SchedulerEnd::cancelled);
  if (ledger_.take_record(open, seen.id, job.restarts, end, round)) return;
  JobInfo info;
  info.id = seen.id;
  info.key = open.key;
  info.end = end;
  info.restarts = job.restarts;
  info.nodes = memory.last_nodes.empty() ? job.nodes : memory.last_nodes;
  const auto claimed = is_there(claim_path(open.attempt_dir, job.restarts));
  const bool never_started = job.nodes.empty() && claimed.ok() && !*claimed;
  if (never_started && end == SchedulerEnd::cancelled) {
    // No lead was there to write a record.
    info.state = JobState::ended;
    info.record = never_started_record(open.key, seen.id, job.restarts, ended_ms, end_text(job, "Slurm"));
    info.started_ms = info.record->started_ms;
    return ledger_.conclude(std::move(info), round);
  }
  // A running job that is seen to have ended: it was running until now.
  if (!job.nodes.empty()) memory.last_state = JobState::running;
  if (memory.last_started_ms == 0) memory.last_started_ms = our_ms(job.started_s, job, identity);
  // Also for a process that looks once and ends: long ago by any clock.
  const bool long_ago = ended_ms > 0 && access_.clock.wall_ms() - ended_ms > 2 * access_.options.record_grace_ms;
  const bool waited = ledger_.waited_long_enough(open);
  if (!waited && (!long_ago || ledger_.is_unread(open.key)))
    return ledger_.await(open, seen.id, format("ended in Slurm ({}), its record is awaited", job.state), round);
  info.state = JobState::lost;
  info.started_ms = memory.last_started_ms;
  info.cause = end_text(job, "Slurm") + ledger_.no_record(open.key);
  ledger_.conclude(std::move(info), round);
}

Status SlurmScheduler::release(const std::string& id) {
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  if (index_.is_anothers(id)) return make_error(ErrorCode::not_found, "the number " + id + " is another job's");
  return access_.port.release(id);
}

Result<std::vector<HostSeen>> SlurmScheduler::hosts() {
  LH_TRY(const auto nodes, access_.port.nodes());
  LH_TRY(const auto partitions, access_.port.partitions());
  return hosts_of(nodes, partitions);
}

Status SlurmScheduler::exclude_only(const std::string& id, const std::vector<std::string>& hosts) {
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  return access_.port.update(id, {{"excluded_nodes", join(hosts, ",")}});
}

}  // namespace longhaul
