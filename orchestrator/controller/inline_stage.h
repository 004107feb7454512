// Stages that a controller carries out itself, by runs below them whose jobs are trials: tune and search. To everybody
// else each looks like a job, with an id, a claim at its start and a record at its end, and its artifact is published
// by one rename. All of it can be done twice: whoever comes first is believed.
#pragma once

#include <functional>
#include <string>

#include "base/system/clock.h"
#include "contracts/records/manifest.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/tune_files.h"

namespace longhaul {

inline constexpr int bad_input_exit = 3;  // of a record: what trying again does not cure

bool is_own_kind(const std::string& kind);
// The id that stands for a job's.
std::string inline_job_id(const std::string& key);

// When the attempt began: what the controllers of this run agree on, whoever comes first.
Result<std::int64_t> claim_inline_job(const std::string& attempt_dir, const std::string& key, const Clock& clock);
// The attempt as a job that runs, or that has ended if its record says so.
JobInfo inline_job(const std::string& attempt_dir, const LedgerAttempt& attempt);
// Writes the record unless there is one, and returns the job as the record has it.
Result<JobInfo> end_inline_job(const std::string& attempt_dir, const LedgerAttempt& attempt, JobInfo job,
                               const std::string& outcome, const std::string& cause, int exit_code, const Clock& clock);

struct OwnArtifact {
  std::string file, text;  // its one file
  Value figures;
};
// `may_act`: conflict where another controller drives the run by now. Nothing where it is published already.
Status publish_own(const std::string& run_dir, const FrozenRun& run, const LedgerStage& stage,
                   const PlannedStage& planned, const OwnArtifact& artifact, const std::function<Status()>& may_act,
                   const Clock& clock);

}  // namespace longhaul
