// Room contracts/plan/rollout
// Answers of a model in training: in which layout they are drawn, and what a rank holds for that.
// drawing_layout.h is the layout; rollout_memory.h is the memory.
// It knows no time: how long it takes is autotune/inference.
//
// In which layout the ranks of a replica, or those that only draw (rollout.ranks), draw answers (rollout.tp,
// rollout.pp): so many hold one copy of the model together, as many copies as there are ranks for.
#pragma once

#include "contracts/model/parameter_layout.h"
#include "contracts/plan/layout_check.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

// Of the replica's tp * cp * pp ranks, in their order: rollout.tp of each matrix (also of experts') and rollout.pp
// stages, and copies of that as dp_replicate. With rollout.ranks a replica whose ranks are no multiple of that has the
// whole model on each. Of a layout that drawing_layout_problems has nothing against.
ParallelDims drawing_dims(const RolloutSettings& rollout, const ModelShape& shape, const ParallelDims& training);
// The same of the rollout.ranks ranks that only draw.
ParallelDims drawing_ranks_dims(const RolloutSettings& rollout, const ModelShape& shape);

// Where one of those ranks stands then, as weights are distributed: copies are left out. `stages`: of the pipeline that
// trains, taken over where the one that draws has as many.
MeshPlace drawing_place(const ParallelDims& drawing, const ModelShape& shape, int rank, const StageLayout& stages);
// The number of a rank among those of its replica.
int rank_of_replica(const ParallelDims& training, const RankCoordinates& at);

// Does a rank of such a layout have only a part of the weights that it computes with?
bool holds_parts(const ParallelDims& dims);
// Does each rank of a layout that trains have exactly what it draws with in the other one: the whole model, or the same
// part of it? Else weights go from rank to rank before each rollout.
bool draws_with_its_own(const ParallelDims& training, const ParallelDims& drawing);

// What of a model and of the layout that trains it does not go with rollout.tp and rollout.pp. `shape`: null where
// nothing is known of the model.
std::vector<LayoutProblem> drawing_layout_problems(const RolloutSettings& rollout, const ModelShape* shape,
                                                   const ParallelDims& training);
// All of them as one error (invalid_input).
Status check_drawing_layout(const RolloutSettings& rollout, const ModelShape& shape, const ParallelDims& training);

}  // namespace longhaul
