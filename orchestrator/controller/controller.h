// One controller of one run: an epoch, the ledger folded so far, and the round that tick() and drive() do. Everything
// it remembers can be read again from the logs; it is kept only so that a round without news costs a few system calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/found_layouts.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/controller/jobs/job_observer.h"
#include "orchestrator/controller/jobs/ready_inputs.h"
#include "orchestrator/controller/jobs/scheduler_calls.h"
#include "orchestrator/controller/run_journal.h"
#include "orchestrator/controller/run_metrics.h"
#include "orchestrator/controller/run_scheduler.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/runs/milestone_scanner.h"

namespace longhaul {

class InlineStageRunner;

class Controller {
 public:
  ~Controller();
  // Claims the next epoch (`epoch` = 0) or goes on with one that this process claimed before.
  static Result<std::unique_ptr<Controller>> open(const std::string& run_dir, std::int64_t epoch,
                                                  const TickOptions& options, Clock& clock, Logger& log);
  // The same with the run's resolved.toml as it was read before.
  static Result<std::unique_ptr<Controller>> open(const std::string& run_dir, FrozenRun frozen, std::int64_t epoch,
                                                  const TickOptions& options, Clock& clock, Logger& log);

  // Observe, decide, write intents, act, write outcomes. conflict: another controller took over; do not call again.
  Result<TickOutcome> round();
  std::int64_t epoch() const { return journal_.epoch(); }
  const RunLedger& ledger() const { return journal_.ledger(); }
  RunStatus status() const;
  // Something that has no answer yet: the scheduler was silent, or what it was asked for may have happened.
  bool unanswered() const;
  // All that is left without an outcome was answered, and is refused for now: nothing is gained by asking at once.
  bool waits_for_limits() const;
  void ask_again() { observer_.ask_again(); }
  std::int64_t poll_interval_ms() const { return observer_.poll_interval_ms(); }
  // No more rounds will follow: whoever looks from another host need not wait for this one's silence, nor for what it
  // may have under way. Where another controller has taken over, that alone is said, beside the logs.
  void leave();
  // How long to wait before another round can bring something new.
  std::int64_t pause_ms_max() const { return poll_interval_ms() > 0 ? 1000 : 250; }

 private:
  Controller(std::string run_dir, FrozenRun frozen, EpochLog log_file, const TickOptions& options, Clock& clock,
             Logger& log);
  ControlledRun controlled();
  Status set_up_scheduler();
  Result<Observations> observe();
  Status take_layouts() { return layouts_.take(ledger(), scheduling_.site, frozen_.plan, scheduling_.rules); }
  Status act();
  // Takes the acts of stages that this controller carries out itself out of `acts`; their outcomes are what is added.
  void act_inline(PendingActs& acts, std::vector<Fact>& outcomes) const;
  Status remove_answered_requests(const Observations& seen);
  void pulse();

  std::string run_dir_;
  FrozenRun frozen_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  RunJournal journal_;
  RunMetrics metrics_;
  RunScheduler scheduling_;
  FoundLayouts layouts_;
  MilestoneScanner milestones_;
  ReadyInputs inputs_;
  JobObserver observer_;
  SchedulerCalls calls_;
  std::vector<std::unique_ptr<InlineStageRunner>> inline_stages_;
  std::int64_t pulse_ns_ = 0;
};

}  // namespace longhaul
