#include "orchestrator/controller/idle_look.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/run_scheduler.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/job/open_jobs.h"
#include "orchestrator/runs/artifact_index.h"
#include "orchestrator/runs/milestone_scanner.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

Result<bool> has_requests(const std::string& run_dir) {
  LH_TRY(const auto names, list_directory(join_path(run_dir, "requests")));
  return std::ranges::any_of(names, [](const std::string& name) { return ends_with(name, ".json"); });
}

// By the ledger alone.
bool has_open_ends(const FrozenRun& frozen, const RunLedger& ledger) {
  const PendingActs acts = pending_acts(ledger);
  if (!acts.submit.empty() || !acts.cancel.empty() || !acts.release.empty() || !acts.lift.empty()) return true;
  if (std::ranges::any_of(ledger.orders, [](const LedgerOrder& order) { return order.outcome.empty(); })) return true;
  if (!wants_preparation(frozen.plan, ledger).empty()) return true;
  for (std::size_t i = 0; i < ledger.stages.size(); ++i)  // in plan order
    if (ledger.stages[i].job_open() && is_own_kind(frozen.plan.stages[i].kind)) return true;
  return false;
}

bool has_milestones(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger,
                    const std::string& group) {
  const auto seen = MilestoneScanner(run_dir, frozen, artifact_trust(group)).look(ledger);
  return std::ranges::any_of(seen, [](const auto& entry) { return !entry.second.empty(); });
}

// The plan as a controller goes on with it: nullopt where no layout was found, so that it is the one that was frozen.
Result<std::optional<FrozenRun>> with_found_layouts(const FrozenRun& as_frozen, const RunLedger& ledger) {
  if (std::ranges::all_of(ledger.stages, [](const LedgerStage& stage) { return stage.layout.is_null(); }))
    return std::optional<FrozenRun>();
  FrozenRun frozen = as_frozen;
  for (std::size_t i = 0; i < ledger.stages.size(); ++i)
    if (!ledger.stages[i].layout.is_null()) {
      LH_TRY(frozen.plan.stages[i], with_found(frozen.plan.stages[i], ledger.stages[i].layout));
    }
  return std::optional(std::move(frozen));
}

Result<bool> has_news(const std::string& run_dir, const FrozenRun& as_frozen, const RunLedger& ledger,
                      const TickOptions& options, Clock& clock, Logger& log) {
  LH_TRY(const std::optional<FrozenRun> found, with_found_layouts(as_frozen, ledger));
  const FrozenRun& frozen = found ? *found : as_frozen;
  LH_TRY(const RunScheduler made, make_run_scheduler(run_dir, frozen, options, clock, log));
  if (!made.site) return true;  // it starts its jobs when it is asked
  const std::vector<OpenJob> open = open_jobs(run_dir, ledger);
  if (std::ranges::any_of(open, [](const OpenJob& job) { return end_by_record(job).has_value(); })) return true;
  if (has_milestones(run_dir, frozen, ledger, made.site->values.get_string("group"))) return true;
  Observations seen;
  seen.now_ms = clock.wall_ms();
  if (!open.empty()) {
    auto jobs = made.scheduler->snapshot(open);
    if (!jobs.ok()) return true;
    for (JobInfo& job : *jobs) {
      const std::string key = job.key;
      seen.jobs.insert_or_assign(key, std::move(job));
    }
  }
  return !decide(frozen.plan, made.rules, ledger, seen, frozen.name).empty();
}

}  // namespace

Result<std::optional<TickOutcome>> look_if_idle(const std::string& run_dir, const FrozenRun& frozen,
                                                const TickOptions& options, Clock& clock, Logger& log) {
  const std::optional<TickOutcome> busy;
  if (options.unwritten_record) return busy;
  const std::string folder = absolute_path(run_dir);
  LH_TRY(const EpochRead read, read_epochs(folder));
  if (read.newest == 0 || read.torn) return busy;
  RunLedger ledger(frozen.stage_ids());
  for (const Fact& fact : read.facts) ledger.apply(fact);
  LH_TRY(const bool requests, has_requests(folder));
  if (requests || has_open_ends(frozen, ledger)) return busy;
  if (!ledger.ended) {
    LH_TRY(const bool news, has_news(folder, frozen, ledger, options, clock, log));
    if (news) return busy;
  }
  RunMessages messages(folder, frozen, options.environment, clock, log);
  messages.take(read.facts);
  messages.look_and_send(ledger);
  TickOutcome outcome;
  outcome.state = ledger.ended ? ledger.state : RunState::running;
  return std::optional(outcome);
}

}  // namespace longhaul
