// The copies on all nodes together (local_copies.h): which steps are whole, and how their shares come to the ranks that
// need them. All functions are collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/training_state.h"
#include "engine/parallel/collective_group.h"

namespace longhaul {

// Beside a share in `folder`: the part of the manifest that belongs to it, written last.
std::string local_part_path(const std::string& folder, const std::string& shard_file);

struct LocalStep {
  std::int64_t step = 0;
  int owners = 0;  // shares that make it whole: the ranks that wrote it
};
// Those after `newer_than` of which some rank has each share, newest first: the same list on every rank. `folder` is
// this node's, with a folder for every rank that wrote there.
Result<std::vector<LocalStep>> complete_local_steps(CollectiveGroup& group, const std::string& folder,
                                                    std::int64_t newer_than);

// Every rank verifies the shares that it finds (ranks of one node deal them out), all agree on who gives which, and
// each entry goes to the ranks that need something of it. ErrorCode::corrupt names the share that is whole nowhere.
Status load_local_step(CollectiveGroup& group, const std::string& folder, const LocalStep& step, TrainingState& state,
                       int threads);

}  // namespace longhaul
