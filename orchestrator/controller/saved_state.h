// Checkpoints of a stage as files, for runs that go on from those of another one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace longhaul {

std::string checkpoints_folder(const std::string& run_dir, const std::string& stage);
// Of the whole ones in such a folder, ascending.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);
// Hard links cost nothing and survive the removal of what they were made from; a copy where they cannot be made.
Status link_tree(const std::string& from, const std::string& to);

}  // namespace longhaul
