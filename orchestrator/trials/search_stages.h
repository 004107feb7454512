// The search stages of a run (inline_stages.h): they ask which trials to start (autotune/hyper/halving.h), run them
// (rung_runs.h), and publish the best configuration by one rename.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autotune/hyper/trial_standings.h"
#include "orchestrator/trials/inline_stages.h"
#include "orchestrator/trials/rung_runs.h"

namespace longhaul {

class SearchStages final : public InlineStages {
 public:
  explicit SearchStages(const InlineStageSetup& setup);

 private:
  struct Work;
  Result<std::unique_ptr<InlineStages::Work>> begin(const RunLedger& ledger, const LedgerStage& stage,
                                                    const PlannedStage& planned) const override;
  Result<Turn> turn(const LedgerStage& stage, const PlannedStage& planned, InlineStages::Work& work) override;
  Result<int> places_of(const PlannedStage& search, const HyperSearchSettings& settings) const;
  static std::string failure_text(const hyper::Decision& decision, const std::vector<hyper::Trial>& history,
                                  const Work& work);
  Status publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                 const std::vector<hyper::Trial>& history) const;
  void write_standings(const LedgerStage& stage, Work& work, const std::vector<hyper::Trial>& history,
                       bool finished) const;
};

}  // namespace longhaul
