#include "orchestrator/reuse/reuse_outline.h"

#include <unistd.h>

#include <set>

#include "base/files/files.h"
#include "base/system/user_names.h"
#include "base/text/text.h"
#include "orchestrator/reuse/prepare.h"

namespace longhaul {
namespace {

bool has_pointers(const std::string& root) {
  const auto names = root.empty() ? Result<std::vector<std::string>>(Error()) : list_directory(root);
  if (!names.ok()) return false;
  for (const std::string& name : *names)
    if (ends_with(name, ".json")) return true;
  return false;
}

std::vector<std::string> ids_of(const RunPlan& plan) {
  std::vector<std::string> ids;
  for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
  return ids;
}

}  // namespace

ReuseOutline reuse_outline(const RunPlan& plan, const std::string& artifact_root, ArtifactTrust trust,
                           bool look_anyway) {
  ReuseOutline outline;
  RunLedger& ledger = outline.ledger = RunLedger(ids_of(plan));
  if (!look_anyway && !has_pointers(artifact_root)) return outline;
  trust.verify = false;
  // As a controller would go through its rounds, but that nothing is ever submitted.
  for (std::set<std::string> looked_at;;) {
    bool any = false;
    for (const PlannedStage* planned : wants_preparation(plan, ledger)) {
      if (!looked_at.insert(planned->id()).second) continue;
      const PreparedStage& prepared =
          outline.prepared.emplace(planned->id(), prepare_stage(*planned, ledger, artifact_root, trust)).first->second;
      if (!prepared.disbelieved.empty()) outline.disbelieved.push_back(planned->id() + ": " + prepared.disbelieved);
      if (!prepared.cached) continue;
      LedgerStage& stage = *ledger.find(planned->id());
      stage.state = StageState::cached;
      stage.key = prepared.key;
      stage.artifact = prepared.cached->folder, stage.digest = prepared.cached->digest;
      stage.figures = prepared.cached->figures;
      outline.stages.push_back({planned->id(), *prepared.cached});
      any = true;
    }
    if (!any) return outline;
  }
}

std::string cached_text(const std::string& stage, const std::string& folder, std::int64_t uid, bool verified) {
  const bool own = uid == static_cast<std::int64_t>(::geteuid());
  return format("{} is cached: {}, {}{}", stage, folder,
                own        ? "yours"
                : uid >= 0 ? "of " + user_text(uid)
                           : "of an unknown user",
                own        ? ""
                : verified ? ", verified"
                           : ", not verified yet");
}

}  // namespace longhaul
