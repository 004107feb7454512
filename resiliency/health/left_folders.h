// What earlier jobs have left in the memory or on the disk of a node: folders of heartbeat pages, the states of
// standbys, and the copies that trainings keep of themselves (hundreds of GB where a job was killed). Whoever comes
// next on that node removes what nobody needs any more: the next job of the same user, on whichever training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/files/held_folder.h"

namespace longhaul {

struct NodeFolder {
  std::string path;
  FolderUse use = FolderUse::unknown;
  std::int64_t bytes = 0;
  std::string state_dir;          // of the training whose copies these are; "": no copies
  std::int64_t newest_copy = -1;  // its step; -1: none
};
// Those of this user in `parent`, by their names and owners. An empty list where `parent` cannot be read.
std::vector<NodeFolder> node_folders(const std::string& parent);

// How far the training is to which copies belong, by what lies on the shared file system.
struct TrainingOnDisk {
  enum class State { there, gone, unknown } state = State::unknown;
  bool published = false;               // its artifact is there
  std::int64_t newest_checkpoint = -1;  // step of the newest whole one; -1: none
};
TrainingOnDisk training_on_disk(const std::string& state_dir);

// Why nobody needs the folder any more, as a sentence's end; "": it stays. Pure.
std::string why_left(const NodeFolder& folder, const TrainingOnDisk& training);

struct RemovedFolder {
  std::string path, why;
  std::int64_t bytes = 0;
  Status outcome;
};
// Of what lies in `parent`, all for which there is a reason; copies of the training with this state folder stay: its
// own ranks know what they are good for.
std::vector<RemovedFolder> remove_left_folders(const std::string& parent, const std::string& own_state_dir);

}  // namespace longhaul
