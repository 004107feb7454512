#include "orchestrator/controller/jobs/job_observer.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/open_jobs.h"
#include "orchestrator/runs/saved_state.h"

namespace longhaul {
namespace {

constexpr std::int64_t maintenance_interval_ms = 10 * 60'000;
constexpr std::int64_t hosts_interval_ms = 60'000;

}  // namespace

void JobObserver::open(Scheduler& scheduler, std::function<std::int64_t()> ask_maintenance, std::uint64_t spread_seed) {
  scheduler_ = &scheduler;
  ask_maintenance_ = std::move(ask_maintenance);
  pace_ = PollPace(scheduler.poll_interval_ms(), spread_seed);
}

Status JobObserver::look(const std::vector<OpenJob>& open, Observations& seen) {
  if (!open.empty()) LH_CHECK(ask_scheduler(open, seen));
  for (const LedgerStage& stage : run_.ledger.stages) {
    if (!stage.job_open()) continue;
    LH_CHECK(observe_artifact(run_, use_, stage, seen));
    const auto job = seen.jobs.find(stage.newest()->key);
    if (job != seen.jobs.end() && (job->second.state == JobState::ended || job->second.state == JobState::lost))
      LH_CHECK(look_at_saved(stage, job->second, seen));
  }
  return {};
}

// What decides whether a job got further is read before its end is judged: a round that cannot read it is made again.
Status JobObserver::look_at_saved(const LedgerStage& stage, const JobInfo& job, Observations& seen) const {
  if (job.record && job.record->outcome == "succeeded") return {};
  LH_TRY(SavedState saved, observe_saved(run_.run_dir, stage.id, job.record, run_.planned_of(stage).kind != "command"));
  seen.saved.emplace(stage.id, std::move(saved));
  return {};
}

// From the scheduler when it is due; in between from the records of jobs that rang.
Status JobObserver::ask_scheduler(const std::vector<OpenJob>& open, Observations& seen) {
  struct stat bell{};
  const bool rang = ::stat(doorbell_path(driven_folder(run_.run_dir, run_.frozen)).c_str(), &bell) == 0 &&
                    (bell.st_mtim.tv_sec != rung_.tv_sec || bell.st_mtim.tv_nsec != rung_.tv_nsec);
  if (rang) rung_ = bell.st_mtim;
  if (pace_.due(run_.clock.monotonic_ns())) {
    auto jobs = scheduler_->snapshot(open);
    silent_ = !jobs.ok();
    pace_.asked(run_.clock.monotonic_ns(), changed_);
    if (!jobs.ok() && jobs.error().code != ErrorCode::unavailable) return jobs.error();
    if (!jobs.ok()) run_.log.warn("event=scheduler_unavailable error='" + jobs.error().message() + "' next=try_again");
    if (jobs.ok()) {
      for (JobInfo& job : *jobs) {
        const std::string key = job.key;
        seen.jobs.insert_or_assign(key, std::move(job));
      }
    }
  } else if (rang) {
    for (const OpenJob& job : open)
      if (auto ended = end_by_record(job)) seen.jobs.insert_or_assign(job.key, *std::move(ended));
  }
  seen.notices = scheduler_->notices();
  if (unwritten_) take_unwritten(open, seen);
  return {};
}

// Its job still runs, as its scheduler sees it: its lead waits for this round.
void JobObserver::take_unwritten(const std::vector<OpenJob>& open, Observations& seen) const {
  const JobRecord& record = *unwritten_;
  for (const OpenJob& job : open) {
    if (job.key != record.key || job.restarts > record.restarts) continue;
    JobInfo& info = seen.jobs[job.key];
    if (info.record) continue;
    info.key = job.key;
    info.id = job.id;
    info.state = JobState::ended;
    info.restarts = record.restarts;
    info.started_ms = record.started_ms;
    info.record = record;
  }
}

void JobObserver::look_for_hosts(Observations& seen) {
  if (!run_.rules.can_exclude) return;
  const bool bad_end = std::any_of(seen.jobs.begin(), seen.jobs.end(), [](const auto& entry) {
    const JobInfo& job = entry.second;
    return job.state == JobState::lost ||
           (job.state == JobState::ended && (!job.record || job.record->outcome != "succeeded"));
  });
  if (!hosts_matter(run_.ledger, bad_end)) return;
  const std::int64_t now = run_.clock.monotonic_ns();
  if (hosts_asked_ns_ == 0 || now - hosts_asked_ns_ > hosts_interval_ms * 1'000'000) {
    hosts_asked_ns_ = now;
    auto answer = scheduler_->hosts();
    if (!answer.ok())
      run_.log.warn("event=hosts_not_known error='" + answer.error().message() + "' next=exclude_suspects");
    hosts_ = answer.ok() ? std::move(answer).value() : std::vector<HostSeen>();
  }
  seen.hosts = hosts_;
}

std::optional<std::int64_t> JobObserver::look_for_maintenance() {
  const auto resumable = [](const StageRules& rules) { return rules.resumable && rules.wall_s > 0; };
  if (!ask_maintenance_ || std::none_of(run_.rules.stages.begin(), run_.rules.stages.end(), resumable))
    return std::nullopt;
  if (maintenance_asked_ns_ != 0 &&
      run_.clock.monotonic_ns() - maintenance_asked_ns_ < maintenance_interval_ms * 1'000'000)
    return std::nullopt;
  maintenance_asked_ns_ = run_.clock.monotonic_ns();
  return ask_maintenance_();
}

}  // namespace longhaul
