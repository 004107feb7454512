#include "orchestrator/trials/inline_stages.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/value/json.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/state/tune_files.h"

namespace longhaul {
namespace {

constexpr int turns_max = 100;  // of one look: what ends at once is followed by the next

}  // namespace

InlineStages::InlineStages(std::string kind, const InlineStageSetup& setup)
    : run_dir_(setup.run_dir),
      run_(setup.run),
      options_(setup.options),
      clock_(setup.clock),
      log_(setup.log),
      may_act_(setup.may_act),
      kind_(std::move(kind)) {}
InlineStages::~InlineStages() = default;

bool InlineStages::unanswered() const {
  return std::any_of(works_.begin(), works_.end(), [](const auto& entry) { return entry.second->unanswered(); });
}

Status InlineStages::look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs) {
  for (std::size_t i = 0; i < ledger.stages.size(); ++i) {  // in plan order
    const LedgerStage& stage = ledger.stages[i];
    const PlannedStage& planned = run_.plan.stages[i];
    if (planned.kind != kind_ || !stage.job_open() || stage.newest()->job.empty()) continue;
    LH_TRY(JobInfo info, advance(ledger, stage, planned));
    if (info.state == JobState::ended) works_.erase(info.key);
    jobs.insert_or_assign(info.key, std::move(info));
  }
  return {};
}

Result<InlineStages::Work*> InlineStages::work_of(const RunLedger& ledger, const LedgerStage& stage,
                                                  const PlannedStage& planned) {
  const LedgerAttempt& attempt = *stage.newest();
  const auto known = works_.find(attempt.key);
  if (known != works_.end()) return known->second.get();
  const std::string attempt_dir = attempt_folder(run_dir_, stage.id, attempt.number);
  LH_TRY(const std::int64_t started_ms, claim_inline_job(attempt_dir, attempt.key, clock_));
  LH_TRY(std::unique_ptr<Work> work, begin(ledger, stage, planned));
  work->started_ms = started_ms;
  work->events = std::make_unique<EventWriter>(clock_, join_path(attempt_dir, "events.jsonl"), 0);
  return works_.emplace(attempt.key, std::move(work)).first->second.get();
}

Result<JobInfo> InlineStages::advance(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned) {
  const LedgerAttempt& attempt = *stage.newest();
  const std::string attempt_dir = attempt_folder(run_dir_, stage.id, attempt.number);
  JobInfo info = inline_job(attempt_dir, attempt);
  if (info.state == JobState::ended) return info;
  const auto ended = [&](const std::string& outcome, const std::string& cause, int exit_code) {
    return end_inline_job(attempt_dir, attempt, info, outcome, cause, exit_code, clock_);
  };
  const auto found = work_of(ledger, stage, planned);
  if (!found.ok() && found.error().code == ErrorCode::io) return found.error();
  if (!found.ok()) return ended("failed", found.error().message(), bad_input_exit);
  Work& work = **found;
  info.started_ms = work.started_ms;
  if (attempt.cancel_wanted) {
    LH_CHECK(work.cancel());
    if (work.open()) return info;
    return ended("cancelled", "cancelled on request", 0);
  }
  for (int turns = 0; turns < turns_max; ++turns) {
    LH_TRY(const Turn next, turn(stage, planned, work));
    switch (next.next) {
      case Turn::Next::again: break;
      case Turn::Next::wait: return info;
      case Turn::Next::succeeded: return ended("succeeded", "", 0);
      case Turn::Next::failed: return ended("failed", next.cause, bad_input_exit);
    }
  }
  return info;
}

void InlineStages::report_trials(const LedgerStage& stage, Work& work, const Value& trials, double done, double total,
                                 const char* unit) const {
  const std::string text = to_json_pretty(trials);
  if (text == work.written_text) return;
  work.written_text = text;
  if (const Status written = write_file_renamed(join_path(stage_folder(run_dir_, stage.id), trials_file_name), text);
      !written.ok())
    log_.warn("event=trials_not_written error='" + written.error().message() + "'");
  work.events->progress(std::min(done, total), std::max(1.0, total), unit);
}

}  // namespace longhaul
