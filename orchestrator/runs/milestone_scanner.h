// Finds the milestones that a run's trainings have published, and lets other runs find them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/decide/decide.h"
#include "orchestrator/runs/artifact_index.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

class MilestoneScanner {
 public:
  // Both are borrowed. What the plan says about milestones is read here, once.
  MilestoneScanner(const std::string& run_dir, const FrozenRun& frozen, ArtifactTrust trust = artifact_trust(""));

  // By stage, of those where milestones may still come or are waited for: the ones that the ledger does not know. A
  // stage that was looked at and has none is there, too. Look after the jobs' records: what a job published is seen
  // together with its end, or before. Whole ones of the run's own become part of the index, unless orders steered them;
  // those of a cached stage come from there.
  std::map<std::string, std::map<std::int64_t, ArtifactSeen>> look(const RunLedger& ledger) const;

 private:
  struct Training {
    std::size_t position;  // in the plan and in the ledger
    std::vector<std::int64_t> steps;
    std::vector<std::size_t> consumers;  // stages that name one of its milestones
  };
  bool is_looked_at(const Training& training, const RunLedger& ledger) const;
  Result<ArtifactSeen> find(const LedgerStage& stage, std::int64_t step, bool published) const;

  const std::string& run_dir_;
  const FrozenRun& frozen_;
  ArtifactTrust trust_;
  std::vector<Training> trainings_;
};

// stages/<id>/milestones of a run.
std::string milestones_folder(const std::string& run_dir, const std::string& stage);

}  // namespace longhaul
