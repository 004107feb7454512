// The tune stages of a run (own_stage.h): the controller's own rounds run its trials (trial_runs.h), ask what follows
// (autotune/trials/confirmation.h), and publish the layout by one rename. Nothing is remembered that the folders do not
// say: a controller that is killed is followed by one that reads the same and decides the same.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "autotune/trials/confirmation.h"
#include "orchestrator/controller/trial_runs.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/tune_files.h"

namespace longhaul {

class TuneStages {
 public:
  // All borrowed. `run` is the run that these stages belong to. `may_act`: see TrialRunsSetup.
  TuneStages(const std::string& run_dir, const FrozenRun& run, const TickOptions& options, Clock& clock, Logger& log,
             std::function<Status()> may_act);
  ~TuneStages();
  TuneStages(const TuneStages&) = delete;
  TuneStages& operator=(const TuneStages&) = delete;

  // Moves every tune stage on that has begun, and tells how it stands: by submission key. conflict: another controller
  // drives the run.
  Status look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs);
  bool unanswered() const;

 private:
  struct Work;
  Result<JobInfo> advance(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);
  Result<Work*> work_of(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);
  Result<std::vector<Trial>> candidates_of(const PlannedStage& tune, const PlannedStage& target,
                                           const std::string& folder) const;
  void keep_forecast(const PlannedStage& tune, const PlannedStage& target, const std::vector<Trial>& candidates,
                     const std::string& folder) const;
  Status publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                 const std::vector<TrialResult>& results, const ConfirmationDecision& decision) const;
  void keep_for_later(const LedgerStage& stage, const Work& work, const ConfirmationDecision& decision) const;
  void tell(const LedgerStage& stage, Work& work, const std::vector<TrialResult>& results,
            const ConfirmationDecision& decision) const;

  const std::string run_dir_;
  const FrozenRun& run_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  std::function<Status()> may_act_;
  std::map<std::string, std::unique_ptr<Work>> works_;  // by submission key
};

}  // namespace longhaul
