#include "orchestrator/controller/inline_stage.h"

#include <unistd.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/value/json.h"
#include "contracts/records/record.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/tune.h"
#include "orchestrator/runs/artifact_index.h"

namespace longhaul {

bool is_own_kind(const std::string& kind) {
  return kind == tune_kind_name || kind == search_kind_name;
}

std::string inline_job_id(const std::string& key) {
  return "trials:" + key;
}

Result<std::int64_t> claim_inline_job(const std::string& attempt_dir, const std::string& key, const Clock& clock) {
  const std::string path = join_path(attempt_dir, claim_file_name(0));
  LH_CHECK(make_directories(attempt_dir));
  LH_TRY(const ProcessId self, identify_process(static_cast<pid_t>(::getpid())));
  const Status claimed = write_claim(path, {key, host_name(), self, clock.wall_ms(), {}});
  if (!claimed.ok() && claimed.error().code != ErrorCode::conflict) return claimed.error();
  LH_TRY(const LeadClaim claim, read_claim(path));
  return claim.started_ms;
}

JobInfo inline_job(const std::string& attempt_dir, const LedgerAttempt& attempt) {
  JobInfo info;
  info.id = attempt.job;
  info.key = attempt.key;
  info.state = JobState::running;
  auto record = read_record(join_path(attempt_dir, record_file_name(0)));
  if (!record.ok()) return info;
  info.started_ms = record->started_ms;
  info.record = std::move(record).value();
  info.state = JobState::ended;
  return info;
}

Result<JobInfo> end_inline_job(const std::string& attempt_dir, const LedgerAttempt& attempt, JobInfo job,
                               const std::string& outcome, const std::string& cause, int exit_code,
                               const Clock& clock) {
  const std::string path = join_path(attempt_dir, record_file_name(0));
  JobRecord record;
  record.key = attempt.key;
  record.attempt = attempt.number;
  record.host = host_name();
  record.started_ms = job.started_ms > 0 ? job.started_ms : clock.wall_ms();
  record.ended_ms = clock.wall_ms();
  record.outcome = outcome;
  record.cause = cause;
  record.exit_code = exit_code;
  const Status written = write_record(path, record);
  if (!written.ok() && written.error().code != ErrorCode::conflict) return written.error();
  LH_TRY(job.record, read_record(path));
  job.started_ms = job.record->started_ms;
  job.state = JobState::ended;
  return job;
}

Status publish_own(const std::string& run_dir, const FrozenRun& run, const LedgerStage& stage,
                   const PlannedStage& planned, const OwnArtifact& artifact, const std::function<Status()>& may_act,
                   const Clock& clock) {
  const std::string out = join_path(stage_folder(run_dir, stage.id), "out");
  if (read_artifact(out, stage.key).ok()) return {};  // by one that was killed right behind it
  const std::string staging = join_path(attempt_folder(run_dir, stage.id, stage.newest()->number), "staging");
  LH_CHECK(remove_tree(staging));
  LH_CHECK(make_directories(staging));
  LH_CHECK(write_file_atomic(join_path(staging, artifact.file), artifact.text));
  Value figures = Value::make_table();
  figures.set("figures", artifact.figures);
  LH_CHECK(write_file_atomic(join_path(staging, "artifact.json"), to_json_pretty(figures)));
  LH_TRY(Manifest manifest, make_manifest(staging));
  manifest.stage = stage.id;
  manifest.kind = planned.kind;
  manifest.kind_version = planned.kind_version;
  manifest.key = stage.key;
  manifest.software = run.software;
  manifest.created_ms = clock.wall_ms();
  manifest.provenance.set("run", run.name);
  manifest.provenance.set("attempt", stage.newest()->number);
  manifest.provenance.set("settings", planned.settings);
  LH_CHECK(write_manifest(staging, manifest));
  LH_CHECK(sync_tree(staging));
  if (may_act) LH_CHECK(may_act());
  return publish_directory(staging, out).with_context("cannot publish what was found");
}

}  // namespace longhaul
