#include "orchestrator/job/open_jobs.h"

#include "orchestrator/job/job_spec.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

std::vector<OpenJob> open_jobs(const std::string& run_dir, const RunLedger& ledger) {
  std::vector<OpenJob> open;
  const auto add = [&](const LedgerStage& stage, const LedgerAttempt& attempt) {
    OpenJob job{attempt.key, attempt.job, attempt_folder(run_dir, stage.id, attempt.number), attempt.restarts};
    job.folder = attempt.array.empty() ? job.attempt_dir : array_folder(run_dir, stage.id, attempt.array);
    job.work_dir = run_dir;
    job.wanted_ms = attempt.wanted_ms;
    job.answered_ms = attempt.submitted_ms;
    open.push_back(std::move(job));
  };
  for (const LedgerStage& stage : ledger.stages) {
    if (stage.job_open()) add(stage, *stage.newest());
    if (stage.successor_open()) add(stage, *stage.successor);
  }
  return open;
}

std::optional<JobInfo> end_by_record(const OpenJob& open) {
  auto record = read_record(record_path(open.attempt_dir, open.restarts));
  const auto newest = newest_start(open.attempt_dir);
  if (!record.ok() || !newest.ok() || *newest > open.restarts) return std::nullopt;
  JobInfo info;
  info.id = open.id;
  info.key = open.key;
  info.state = JobState::ended;
  info.restarts = open.restarts;
  info.started_ms = record->started_ms;
  info.record = std::move(record).value();
  return info;
}

}  // namespace longhaul
