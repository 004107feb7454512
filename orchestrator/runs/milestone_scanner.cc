#include "orchestrator/runs/milestone_scanner.h"

#include <algorithm>
#include <unordered_map>

#include "base/files/files.h"
#include "contracts/records/milestone.h"

namespace longhaul {

std::string milestones_folder(const std::string& run_dir, const std::string& stage) {
  return join_path(stage_folder(run_dir, stage), "milestones");
}

MilestoneScanner::MilestoneScanner(const std::string& run_dir, const FrozenRun& frozen, ArtifactTrust trust)
    : run_dir_(run_dir), frozen_(frozen), trust_(std::move(trust)) {
  std::unordered_map<std::string, std::size_t> by_id;
  const auto& stages = frozen.plan.stages;  // every one after those that it needs
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const PlannedInput& input : stages[i].inputs) {
      const auto source = input.milestone > 0 ? by_id.find(input.stages.front()) : by_id.end();
      if (source != by_id.end()) trainings_[source->second].consumers.push_back(i);
    }
    auto steps = milestone_steps(stages[i].settings);
    if (steps.empty()) continue;
    by_id.emplace(stages[i].id(), trainings_.size());
    trainings_.push_back({i, std::move(steps), {}});
  }
}

bool MilestoneScanner::is_looked_at(const Training& training, const RunLedger& ledger) const {
  const LedgerStage& stage = ledger.stages[training.position];
  if (stage.key.empty() || stage.milestones.size() == training.steps.size()) return false;
  if (!is_final(stage.state)) return true;
  return std::any_of(training.consumers.begin(), training.consumers.end(),
                     [&](std::size_t i) { return ledger.stages[i].state == StageState::waiting; });
}

// `published`: the run's own folder lists it.
Result<ArtifactSeen> MilestoneScanner::find(const LedgerStage& stage, std::int64_t step, bool published) const {
  const std::string key = milestone_key(stage.key, step);
  if (published) {
    const std::string folder = milestone_folder(milestones_folder(run_dir_, stage.id), step);
    // A fork has those up to its checkpoint from the run that it came from, with the key of that one's stage.
    if (frozen_.fork.stage == stage.id && step <= frozen_.fork.step) {
      LH_TRY(const Manifest manifest, read_manifest(folder));
      return read_artifact(folder, manifest.key);
    }
    auto own = read_artifact(folder, key);
    // What cannot be registered is found by other runs later or never; this one has it.
    if (own.ok() && !own->figures.find("steered"))
      (void)register_artifact(frozen_.artifact_root, key, *own, trust_).ok();
    if (own.ok()) return own;
  }
  if (!stage.has_artifact()) return make_error(ErrorCode::not_found, "not yet");
  return find_artifact(frozen_.artifact_root, key, trust_);
}

std::map<std::string, std::map<std::int64_t, ArtifactSeen>> MilestoneScanner::look(const RunLedger& ledger) const {
  std::map<std::string, std::map<std::int64_t, ArtifactSeen>> seen;
  for (const Training& training : trainings_) {
    if (!is_looked_at(training, ledger)) continue;
    const LedgerStage& stage = ledger.stages[training.position];
    auto& found = seen[stage.id];
    const auto published = published_milestones(milestones_folder(run_dir_, stage.id));
    for (const std::int64_t step : training.steps) {
      if (stage.milestones.contains(step)) continue;
      auto artifact = find(stage, step, std::binary_search(published.begin(), published.end(), step));
      if (artifact.ok()) found.emplace(step, std::move(artifact).value());
    }
  }
  return seen;
}

}  // namespace longhaul
