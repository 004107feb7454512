// Room engine/parallel/mesh
// The mesh as one rank sees it: its coordinates, and the communicator of every axis.
// mesh.h is the entry; collective_group.h has the collectives of trainer and checkpoints, each with a deadline.
// axis_members.h says, without any communication, who is in each group; mesh_traffic.h what they have sent.
// launch_ranks.h makes it of a launch's ranks, some of which may be no part of it.
// rehearsal.h starts every kind of operation once before the first step; box_copy.h moves parts of tensors.
// It knows no kind of parallelism: tensor/, context/, expert/ and pipeline/ are built on it.
//
// The mesh of ranks, as one rank sees it: where it stands, and with whom it works on each axis. Communicators of the
// axes are made of the world's; a Mesh and what it hands out belong to one thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "contracts/layout/parallel_dims.h"
#include "engine/comm/communicator.h"
#include "engine/comm/mesh_axes.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

class Mesh {
 public:
  // One rank. The deadline is of what it does with others beside a mesh.
  explicit Mesh(std::int64_t deadline_ms = 600'000) : deadline_ms_(deadline_ms) {}
  // `world` is borrowed and has dims.world_size() ranks.
  static Result<std::unique_ptr<Mesh>> create(const ParallelDims& dims, Communicator& world,
                                              std::int64_t deadline_ms = 600'000);

  const ParallelDims& dims() const { return dims_; }
  const RankCoordinates& at() const { return at_; }

  // Groups, and communicators, which are null where the group is one rank. Who is in each: axis_members.h.
  // All ranks; those with the same shards and other micro-batches (dp); those that hold one replica of the model
  // together (tp * cp * pp, in the world's order).
  CollectiveGroup& world() { return group(world_axis); }
  CollectiveGroup& data() { return group(data_axis); }
  CollectiveGroup& replica() { return group(replica_axis); }
  // Of the data-parallel ranks, those that share an optimizer (dp_shard), and those that own the same share of it
  // (dp_replicate).
  // Each of these may be asked for experts: those with the same experts and other micro-batches.
  CollectiveGroup& shard(bool experts = false) { return group(experts ? expert_shard_axis : shard_axis); }
  Communicator* shard_communicator(bool experts = false) { return ranks(experts ? expert_shard_axis : shard_axis); }
  CollectiveGroup& replicates(bool experts = false) { return group(experts ? expert_replicate_axis : replicate_axis); }
  Communicator* data_communicator(bool experts = false) { return ranks(experts ? expert_data_axis : data_axis); }
  // Those that share each matrix (tp).
  CollectiveGroup& tensor() { return group(tensor_axis); }
  Communicator* tensor_communicator() { return ranks(tensor_axis); }
  // Those that share each sequence (cp), in order.
  CollectiveGroup& context() { return group(context_axis); }
  Communicator* context_communicator() { return ranks(context_axis); }
  // The stages of a pipeline (pp), in order.
  CollectiveGroup& pipeline() { return group(pipeline_axis); }
  Communicator* pipeline_communicator() { return ranks(pipeline_axis); }
  // The first and the last stage of it, which both hold a tied embedding; one rank everywhere else.
  CollectiveGroup& pipeline_ends() { return group(pipeline_ends_axis); }
  // Those that hold the whole model together: a replica, or as many neighbouring ones as its experts are assigned to;
  // in the world's order, and where they stand.
  CollectiveGroup& whole() { return group(whole_axis); }
  std::vector<RankCoordinates> whole_coordinates() const;
  // Experts (contracts/layout/parallel_dims.h). Ranks of a stage that share a micro-batch (tp * cp); those that hold
  // all experts together (ep * etp, etp fastest); those of a micro-batch with the same experts; those that share each
  // matrix of an expert (etp).
  CollectiveGroup& micro_batch() { return group(micro_batch_axis); }
  Communicator* expert_communicator() { return ranks(expert_axis); }
  CollectiveGroup& expert_copies() { return group(expert_copy_axis); }
  CollectiveGroup& expert_tensor() { return group(expert_tensor_axis); }
  std::int64_t deadline_ms() const { return deadline_ms_; }
  // All but the world's, each with its axis (engine/comm/mesh_axes.h).
  struct OnAxis {
    int axis;
    Communicator* communicator;
  };
  std::vector<OnAxis> on_axes() const;

 private:
  struct Axis {
    std::unique_ptr<Communicator> ranks;  // null: this rank alone, or the world's, which is borrowed
    CollectiveGroup group;
  };
  CollectiveGroup& group(int axis) { return axes_[static_cast<std::size_t>(axis)].group; }
  Communicator* ranks(int axis) { return axes_[static_cast<std::size_t>(axis)].ranks.get(); }
  void make_group(int axis, Communicator& world);

  ParallelDims dims_;
  RankCoordinates at_;
  std::int64_t deadline_ms_;
  std::array<Axis, mesh_axis_last + 1> axes_;
};

}  // namespace longhaul
