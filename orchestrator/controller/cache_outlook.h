// Which stages of a plan a run would take from earlier runs, were it started now: for `plan`. Starts and writes
// nothing.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/controller/artifact_index.h"
#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

struct CachedStage {
  std::string stage;  // id
  ArtifactSeen artifact;
};
struct CacheOutlook {
  std::vector<CachedStage> stages;       // in plan order
  std::vector<std::string> disbelieved;  // "tokens: PATH is ...": there, and not taken
};
// Raw inputs are digested as a run would. Nothing is looked at where the root has no pointers. What lies behind a stage
// that is not cached is not known.
CacheOutlook cache_outlook(const RunPlan& plan, const std::string& artifact_root, ArtifactTrust trust);

// "tokens is cached: FOLDER, of uid 40001 (ana), not verified yet". Of one's own: "yours".
std::string cached_text(const std::string& stage, const std::string& folder, std::int64_t uid, bool verified);

}  // namespace longhaul
