// The tune stages of a run (inline_stages.h): they run trials (trial_runs.h), ask what follows
// (autotune/trials/confirmation.h), and publish the layout by one rename.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autotune/trials/confirmation.h"
#include "orchestrator/trials/inline_stages.h"
#include "orchestrator/trials/trial_runs.h"

namespace longhaul {

class TuneStages final : public InlineStages {
 public:
  explicit TuneStages(const InlineStageSetup& setup);

 private:
  struct Work;
  Result<std::unique_ptr<InlineStages::Work>> begin(const RunLedger& ledger, const LedgerStage& stage,
                                                    const PlannedStage& planned) const override;
  Result<Turn> turn(const LedgerStage& stage, const PlannedStage& planned, InlineStages::Work& work) override;
  Result<std::vector<Trial>> candidates_of(const PlannedStage& tune, const PlannedStage& target,
                                           const std::string& folder) const;
  void keep_forecast(const PlannedStage& tune, const PlannedStage& target, const std::vector<Trial>& candidates,
                     const std::string& folder) const;
  Status publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                 const std::vector<TrialResult>& results, const ConfirmationDecision& decision) const;
  void keep_for_later(const LedgerStage& stage, const Work& work, const ConfirmationDecision& decision) const;
  void write_standings(const LedgerStage& stage, Work& work, const std::vector<TrialResult>& results,
                       const ConfirmationDecision& decision) const;
};

}  // namespace longhaul
