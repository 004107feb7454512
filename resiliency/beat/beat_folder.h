// The folder in which the heartbeat pages of a launch lie on a node, and what else its ranks leave there.
#pragma once

#include <string>

#include "base/result.h"

namespace longhaul {

// Makes it, if it is not there. In a place that all users share (/dev/shm: everybody may write into its parent) it has
// to be a private folder of ours (base/owned_folder.h): invalid_input, with owner and mode, if it is not. Elsewhere it
// belongs to a run, whose folders say themselves who may write there.
Status make_beat_folder(const std::string& path);

}  // namespace longhaul
