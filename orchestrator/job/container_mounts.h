// What a container of ours has to see besides what its user asks for: the run, its programs, its inputs, the node's
// shared memory, in which the heartbeat pages of ranks lie. All under the paths that they have outside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct OwnFolders {
  std::string run_dir, programs, artifact_root;  // those that are there count
  std::vector<std::string> inputs;               // files and folders; of many files in one folder that is mounted
};

// Folders that containers of this run have to see, each once and none below another; links lead to where their files
// are as well. invalid_input: the name of one has a character that no mount can hold.
Result<std::vector<std::string>> folders_for_container(const OwnFolders& own);

// Of `needed` those that these mounts ("SRC:DST" or "SRC:DST:FLAGS") do not show at their own path.
std::vector<std::string> not_mounted(const std::vector<std::string>& needed, const std::vector<std::string>& mounts);

// The mounts that an environment file of a container engine (EDF: TOML with `mounts = ["SRC:DST"]`) lists. nullopt:
// that is not known, for it goes on from another file, or names variables that this process does not know.
// invalid_input: it is no such file.
Result<std::optional<std::vector<std::string>>> environment_mounts(const std::string& text, const std::string& path);

}  // namespace longhaul
