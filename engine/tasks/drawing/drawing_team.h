// Room engine/tasks/drawing
// With whom and with which weights a rank draws answers of the model in training.
// drawing_team.h says who draws together; drawing_weights.h brings together what they draw with.
// It draws nothing: that is engine/tasks/rollouts.
//
// The ranks of a replica, or of those that only draw (rollout.ranks), that draw answers together (rollout.tp,
// rollout.pp): each computes with a part of the model, and all of them draw the same tokens. Such ranks are teams of as
// many each; one that draws by itself is a team of its own.
//
// Where a group of the layout that draws has the ranks of one of the layout that trains, it is that one: nothing of
// both is under way at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contracts/model/parameter_layout.h"
#include "engine/model/inference/ranks/inference_ranks.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

class DrawingTeam {
 public:
  DrawingTeam() = default;  // a rank by itself, which has no replica
  // `drawing`: the layout of the replica's ranks (contracts/plan/rollout/drawing_layout.h). `stages`: of the training's
  // pipeline, taken over where it has as many. The mesh is borrowed. No message is sent, and all ranks of a replica
  // make theirs.
  DrawingTeam(Mesh& mesh, const ModelShape& shape, const ParallelDims& drawing, const StageLayout& stages);
  // Of a rank that only draws. `others`: TaskRun::rollout_ranks, borrowed; `drawing`: the layout of its ranks but the
  // first, which trains; `deadline_ms`: of the team's operations.
  DrawingTeam(CollectiveGroup& others, const ModelShape& shape, const ParallelDims& drawing, std::int64_t deadline_ms);

  bool is_one() const { return members_.size() == 1; }
  // Of this rank among them, as weights are distributed.
  const MeshPlace& place() const { return place_; }
  InferenceRanks ranks() const { return {tensor_.communicator, pipeline_.communicator, deadline_ms_}; }
  // Numbers of ranks: among those of its replica, or among those that only draw.
  int rank() const { return rank_; }  // this one's
  bool has(int rank) const;
  // Of a member, in the order of all_gather_text().
  std::size_t index_of(int rank) const;
  // Texts of all members, in their order. Collective over the team.
  Result<std::vector<std::string>> all_gather_text(const std::string& mine) { return group_.all_gather_text(mine); }

 private:
  struct Group {
    std::unique_ptr<Communicator> own;     // null: it is the mesh's
    Communicator* communicator = nullptr;  // null: one rank
  };
  // Of these ranks, on an axis of the layout that draws: one of the mesh's, or made of the communicator of all.
  static Group group_of(Mesh& mesh, int axis, const std::vector<int>& members);
  static Group make_group(Communicator& all, int axis, const std::vector<int>& members);
  using GroupOf = std::function<Group(int axis, const std::vector<int>& members)>;
  void join(const ModelShape& shape, const ParallelDims& drawing, const StageLayout& stages, const GroupOf& group_of);

  MeshPlace place_;
  int rank_ = 0;
  std::vector<int> members_{0};  // in their order
  std::int64_t deadline_ms_ = 0;
  Group tensor_, pipeline_, all_;
  CollectiveGroup group_;
};

}  // namespace longhaul
