// The folder in which the heartbeat pages of a launch lie on a node, and what else its ranks leave there.
#pragma once

#include <string>

#include "base/error/result.h"
#include "base/files/held_folder.h"

namespace longhaul {

// Makes it, if it is not there. In a place that all users share (/dev/shm: everybody may write into its parent) it has
// to be a private folder of ours (base/files/owned_folder.h): invalid_input, with owner and mode, if it is not.
// Elsewhere it belongs to a run, whose folders say themselves who may write there.
Status make_beat_folder(const std::string& path);
// The same, and where all users share the place it is held (base/files/held_folder.h): who comes after a job that was
// killed removes what nobody holds any more.
Result<HeldFolder> hold_beat_folder(const std::string& path, HeldFolder::Until until = HeldFolder::Until::closed);

}  // namespace longhaul
