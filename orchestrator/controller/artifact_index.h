// Artifacts of all runs of a project, found by key: <artifact_root>/<key>.json is a small pointer to the folder of the
// run that made it. A pointer is a hint: what it names is verified before use, and a stale one is replaced.
#pragma once

#include <string>

#include "contracts/manifest.h"
#include "orchestrator/controller/decide.h"

namespace longhaul {

// The artifact in `folder` if it is whole (sizes; digests are for `deep` checks elsewhere) and has this key.
Result<ArtifactSeen> read_artifact(const std::string& folder, const std::string& key);

// not_found: no pointer, or a stale one. An empty root finds nothing.
Result<ArtifactSeen> find_artifact(const std::string& artifact_root, const std::string& key);
// Written whole; the first maker of a key keeps it while its artifact is whole.
Status register_artifact(const std::string& artifact_root, const std::string& key, const ArtifactSeen& artifact);

}  // namespace longhaul
