// Which layout is best when nodes are lost: not always the one that uses all that are left, because replicas have to
// divide the batch. contracts/plan/shrunken_layout.h keeps the model's split, so that a running job can go on at once;
// this one may change everything, for a new job.
#pragma once

#include <vector>

#include "autotune/search/layout_search.h"

namespace longhaul {

struct ReplannedLayout {
  int nodes = 0;  // that it uses
  RankedLayout best;
};

// Of `question`, whose space.gpus is that of all nodes, on at most `nodes` of them: the fastest over up to eight
// numbers of nodes down to three quarters of those, the one with fewer nodes where two are within a hundredth.
// unavailable: none fits. Errors of the search otherwise.
Result<ReplannedLayout> layout_after_loss(const SearchRequest& question, int nodes, int ranks_per_node);

}  // namespace longhaul
