// Trials of a tune stage as jobs: each round of them is a run below it (nested_run.h), with one stage per trial, and
// the next is made when that has ended.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/trials/trial_runner.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/trials/nested_run.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct TrialRunsSetup {
  NestedRunSetup child;           // of each round; its stage is `tune`
  PlannedStage tune, target;      // as planned
  std::vector<TaskInput> inputs;  // of the tune stage, which are those of the target
};

class TrialRuns final : public TrialRunner {
 public:
  TrialRuns(TrialRunsSetup setup, Clock& clock, Logger& log);
  ~TrialRuns() override;
  TrialRuns(const TrialRuns&) = delete;
  TrialRuns& operator=(const TrialRuns&) = delete;

  // One round of those that are new. A trial that cannot be planned, or that the site would not take, is over at once
  // (refused), with the reason.
  Status submit(std::span<const Trial> trials) override;
  // Moves the open round on as far as it goes without waiting, then says what is known. Trials of a round that was
  // cancelled before they were over are left out, as if nobody had submitted them.
  Result<std::vector<TrialResult>> poll() override;
  // As `longhaul tell RUN stop-after`: after the step that is being computed.
  Status stop(const std::string& name) override;

  // Ends all jobs of the open round; poll() until there is none.
  Status cancel();
  bool open() const { return open_round_ > 0; }
  // The scheduler was silent, or what it was asked for may have happened.
  bool unanswered() const;
  int rounds() const { return static_cast<int>(over_.size()) + (open() ? 1 : 0); }
  // Of all jobs, also of those that were cancelled.
  double node_seconds() const { return node_seconds_; }

 private:
  std::string round_folder(int round) const;
  Status look_for_rounds();
  Status move_on();
  Result<std::vector<TrialResult>> results_of(int round, const FrozenRun& frozen, const RunLedger& ledger) const;

  TrialRunsSetup setup_;
  Clock& clock_;
  Logger& log_;
  std::map<int, std::vector<TrialResult>> over_;  // rounds that have ended
  std::map<int, FrozenRun> plans_;
  int open_round_ = 0;                // 0: none
  std::unique_ptr<NestedRun> round_;  // the open one
  std::vector<TrialResult> newest_;   // of it
  double node_seconds_ = 0;
};

}  // namespace longhaul
