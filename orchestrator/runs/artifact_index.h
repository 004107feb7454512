// Artifacts of all runs of a project, found by key: <artifact_root>/<key>.json is a small pointer to the folder of the
// run that made it. Keys can be computed by everybody who has the workflow, so a pointer is a hint and what it names is
// data until its owner is known: pointer, manifest and folder are believed only where the caller owns them, or where a
// group of the site does and nobody else can change anything on the way to them. What another made is read whole,
// against its manifest's digests, once.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "contracts/records/manifest.h"
#include "orchestrator/decide/decide.h"

namespace longhaul {

struct ArtifactTrust {
  uid_t self = 0;
  std::vector<gid_t> groups = {};  // of the site; none for root, who believes root alone
  bool verify = true;              // what another made and nobody has verified here yet; false: `verified` says so
};
// Of this process's user, and of the group that the run's (or plan's) site names; "" and an unknown one: nobody else.
ArtifactTrust artifact_trust(const std::string& site_group);

// The artifact in `folder` if it is whole (sizes; digests are for `deep` checks elsewhere) and has this key. For what
// the run itself has made.
Result<ArtifactSeen> read_artifact(const std::string& folder, const std::string& key);

// not_found: no pointer, or a stale one. invalid_input: there is one, and it is not believed: the error says why, with
// path, owner and mode; corrupt: another's does not agree with its manifest. An empty root finds nothing.
Result<ArtifactSeen> find_artifact(const std::string& artifact_root, const std::string& key,
                                   const ArtifactTrust& trust);
// Written whole; the first maker of a key keeps it while its artifact is whole and believed.
Status register_artifact(const std::string& artifact_root, const std::string& key, const ArtifactSeen& artifact,
                         const ArtifactTrust& trust);

}  // namespace longhaul
