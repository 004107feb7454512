// The search stages of a run (own_stage.h): the controller's own rounds ask which trials to start
// (autotune/hyper/halving.h), run them (rung_runs.h), and publish the best configuration by one rename. Nothing is
// remembered that the folders do not say: a controller that is killed is followed by one that reads the same and
// decides the same.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "autotune/hyper/trial_standings.h"
#include "orchestrator/controller/rung_runs.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

class SearchStages {
 public:
  // All borrowed. `run` is the run that these stages belong to. `may_act`: see ChildRunSetup.
  SearchStages(const std::string& run_dir, const FrozenRun& run, const TickOptions& options, Clock& clock, Logger& log,
               std::function<Status()> may_act);
  ~SearchStages();
  SearchStages(const SearchStages&) = delete;
  SearchStages& operator=(const SearchStages&) = delete;

  // Moves every search stage on that has begun, and tells how it stands: by submission key. conflict: another
  // controller drives the run.
  Status look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs);
  bool unanswered() const;

 private:
  struct Work;
  Result<JobInfo> advance(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);
  Result<Work*> work_of(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);
  Result<int> places_of(const PlannedStage& search, const HyperSearchSettings& settings) const;
  static std::string failure_text(const hyper::Decision& decision, const std::vector<hyper::Trial>& history,
                                  const Work& work);
  Status publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                 const std::vector<hyper::Trial>& history) const;
  void tell(const LedgerStage& stage, Work& work, const std::vector<hyper::Trial>& history, bool finished) const;

  const std::string run_dir_;
  const FrozenRun& run_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  std::function<Status()> may_act_;
  std::map<std::string, std::unique_ptr<Work>> works_;  // by submission key
};

}  // namespace longhaul
