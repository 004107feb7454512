// One controller of one run: an epoch, the ledger folded so far, and the round that tick() and drive() do. Everything
// it remembers can be read again from the logs; it is kept only so that a round without news costs a few system calls.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/controller/poll_pace.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/run_metrics.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/job/container_mounts.h"
#include "orchestrator/reuse/earlier_runs.h"
#include "orchestrator/runs/milestone_scanner.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

class InlineStageRunner;

class Controller {
 public:
  ~Controller();
  // Claims the next epoch (`epoch` = 0) or goes on with one that this process claimed before.
  static Result<std::unique_ptr<Controller>> open(const std::string& run_dir, std::int64_t epoch,
                                                  const TickOptions& options, Clock& clock, Logger& log);

  // Observe, decide, write intents, act, write outcomes. conflict: another controller took over; do not call again.
  Result<TickOutcome> round();
  std::int64_t epoch() const { return log_file_.epoch(); }
  const RunLedger& ledger() const { return ledger_; }
  RunStatus status() const;
  // Something that has no answer yet: the scheduler was silent, or what it was asked for may have happened.
  bool unanswered() const;
  // All that is left without an outcome was answered, and is refused for now: nothing is gained by asking at once.
  bool waits_for_limits() const;
  void ask_again() { pace_.ask_now(); }
  std::int64_t poll_interval_ms() const { return pace_.interval_ms(); }
  // No more rounds will follow: whoever looks from another host need not wait for this one's silence, nor for what it
  // may have under way. Where another controller has taken over, that alone is said, beside the logs.
  void leave();
  // How long to wait before another round can bring something new.
  std::int64_t pause_ms_max() const { return pace_.interval_ms() > 0 ? 1000 : 250; }

 private:
  Controller(std::string run_dir, FrozenRun frozen, EpochLog log_file, const TickOptions& options, Clock& clock,
             Logger& log);
  Status set_up_scheduler();
  Result<Observations> observe();
  Status observe_artifact(const LedgerStage& stage, Observations& seen);
  void keep_step_time(const LedgerStage& stage, const ArtifactSeen& artifact, std::int64_t at_ms) const;
  Status write(std::vector<Fact>& facts);
  Status observe_jobs(Observations& seen);
  Status look_at_saved(const LedgerStage& stage, const JobInfo& job, Observations& seen) const;
  Status ask_scheduler(const std::vector<OpenJob>& open, Observations& seen);
  void take_unwritten(const std::vector<OpenJob>& open, Observations& seen) const;
  void look_at_inputs(const PlannedStage& planned, Observations& seen);
  void say_why(const PlannedStage& planned, PreparedStage& prepared);
  void look_for_maintenance();
  void look_for_hosts(Observations& seen);
  // The ledger's stages stand in plan order.
  const PlannedStage& planned_of(const LedgerStage& stage) const {
    return frozen_.plan.stages[static_cast<std::size_t>(&stage - ledger_.stages.data())];
  }
  // Stages whose layout or hyperparameters others have found: the plan goes on with them.
  Status take_layouts();
  bool is_own_work(const LedgerStage& stage) const { return is_own_kind(planned_of(stage).kind); }
  Status act();
  struct PreparedWindow {
    std::vector<std::span<const PendingAct>> groups;  // what one submission serves
    std::vector<JobSpec> specs;                       // one for each
  };
  Status submit_all(std::span<const PendingAct> acts);
  Result<PreparedWindow> prepare_window(std::span<const PendingAct> acts) const;
  Status submit_window(const PreparedWindow& window);
  void take_refusal(std::span<const PendingAct> group, const Error& error, std::vector<Fact>& outcomes);
  Result<JobSpec> prepare_job(std::span<const PendingAct> acts) const;
  Status write_attempt_files(const PendingAct& act) const;
  OwnFolders own_folders(const LedgerStage& stage) const;  // that its containers have to see
  Status cancel(const PendingAct& act, std::vector<Fact>& outcomes);
  Status release(const PendingAct& act, std::vector<Fact>& outcomes);
  Status lift_exclusions(const PendingAct& act, std::vector<Fact>& outcomes);
  Status write_outcomes(std::vector<Fact>& outcomes);
  Status remove_answered_requests(const Observations& seen);
  void pulse();

  std::string run_dir_;
  FrozenRun frozen_;
  EpochLog log_file_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  RunLedger ledger_;
  RunMessages messages_;
  RunMetrics metrics_;
  ArtifactTrust trust_;
  MilestoneScanner milestones_;
  EarlierRuns earlier_;  // of the same workflow: for sentences about why a stage runs again
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<InlineStageRunner>> inline_stages_;
  struct LaidOut {
    PlannedStage as_planned;
    Value layout;
  };
  std::map<std::size_t, LaidOut> laid_out_;  // by position in the plan: stages that have their layout
  SchedulingRules rules_;
  std::function<std::int64_t()> ask_maintenance_;
  std::int64_t maintenance_asked_ns_ = 0;
  std::vector<HostSeen> hosts_;  // as they were last seen
  std::int64_t hosts_asked_ns_ = 0;
  std::optional<Site> site_;     // of a cluster; without one there are no job scripts
  std::set<std::string> fresh_;  // keys that this round made: nobody can have submitted them before
  // A submission that was answered, and not accepted: when it is tried again.
  struct NextTry {
    std::int64_t at_ns = 0, pause_ms = 0;
  };
  std::map<std::string, NextTry> refused_for_now_;  // by key
  std::set<std::string> told_;                      // keys without an answer that the log names already
  PollPace pace_;                                   // when the scheduler is asked again
  timespec rung_{};                                 // when a job last rang the doorbell, as far as we have looked
  bool silent_ = false;                             // the scheduler did not answer in the last round
  bool changed_ = true;                             // by the last round
  int cores_ = 1;
  std::int64_t pulse_ns_ = 0;
  std::size_t refused_logged_ = 0;
};

}  // namespace longhaul
