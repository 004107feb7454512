// Which stages of a plan a run would take from earlier runs, were it started now: for `plan`. Starts and writes
// nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/runs/artifact_index.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct CachedStage {
  std::string stage;  // id
  ArtifactSeen artifact;
};
struct ReuseOutline {
  std::vector<CachedStage> stages;                // in plan order
  std::vector<std::string> disbelieved;           // "tokens: PATH is ...": there, and not taken
  std::map<std::string, PreparedStage> prepared;  // by id: stages whose inputs are known
  RunLedger ledger;                               // with those that are cached
};
// Raw inputs are digested as a run would. Nothing is looked at where the root has no pointers, unless `look_anyway`.
// What lies behind a stage that is not cached is not known.
ReuseOutline reuse_outline(const RunPlan& plan, const std::string& artifact_root, ArtifactTrust trust,
                           bool look_anyway = false);

// "tokens is cached: FOLDER, of uid 40001 (ana), not verified yet". Of one's own: "yours".
std::string cached_text(const std::string& stage, const std::string& folder, std::int64_t uid, bool verified);

}  // namespace longhaul
