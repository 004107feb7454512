// Room engine/parallel/mesh
// The mesh as one rank sees it: its coordinates, and the communicator of every axis.
// mesh.h is the entry; collective_group.h has the collectives of trainer and checkpoints, each with a deadline.
// rehearsal.h starts every kind of operation once before the first step; box_copy.h moves parts of tensors.
// It knows no kind of parallelism: tensor/, context/, expert/ and pipeline/ are built on it.
//
// The mesh of ranks, as one rank sees it: where it stands, and with whom it works on each axis. Communicators of the
// axes are made of the world's; a Mesh and what it hands out belong to one thread.
#pragma once

#include <memory>
#include <vector>

#include "contracts/layout/parallel_dims.h"
#include "contracts/plan/traffic.h"
#include "engine/comm/communicator.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

class Mesh {
 public:
  Mesh() = default;  // one rank
  // `world` is borrowed and has dims.world_size() ranks.
  static Result<std::unique_ptr<Mesh>> create(const ParallelDims& dims, Communicator& world,
                                              std::int64_t deadline_ms = 600'000);

  const ParallelDims& dims() const { return dims_; }
  const RankCoordinates& at() const { return at_; }

  // All ranks; those with the same shards and other micro-batches (dp); those that hold one replica of the model
  // together (tp * cp * pp, in the world's order).
  CollectiveGroup& world() { return world_; }
  CollectiveGroup& data() { return data_; }
  // Of the data-parallel ranks, those that share an optimizer (dp_shard), and those that own the same share of it
  // (dp_replicate); communicators are null where there is one.
  // Each of these may be asked for experts: those with the same experts and other micro-batches.
  CollectiveGroup& shard(bool experts = false) { return experts ? expert_shard_ : shard_; }
  Communicator* shard_communicator(bool experts = false) {
    return experts ? expert_shard_ranks_.get() : shard_ranks_.get();
  }
  CollectiveGroup& replicates(bool experts = false) { return experts ? expert_replicates_ : replicates_; }
  Communicator* data_communicator(bool experts = false) {
    return experts ? expert_data_ranks_.get() : data_ranks_.get();
  }
  CollectiveGroup& replica() { return replica_; }
  // Those that share each matrix (tp); the communicator is null where there is one.
  CollectiveGroup& tensor() { return tensor_; }
  Communicator* tensor_communicator() { return tensor_ranks_.get(); }
  // Those that share each sequence (cp), in order; the communicator is null where there is one.
  CollectiveGroup& context() { return context_; }
  Communicator* context_communicator() { return context_ranks_.get(); }
  // The stages of a pipeline (pp), in order; the communicator is null where there is one.
  CollectiveGroup& pipeline() { return pipeline_; }
  Communicator* pipeline_communicator() { return pipeline_ranks_.get(); }
  // The first and the last stage of it, which both hold a tied embedding; one rank everywhere else.
  CollectiveGroup& pipeline_ends() { return pipeline_ends_; }
  // Those that hold the whole model together: a replica, or as many neighbouring ones as its experts are dealt to; in
  // the world's order, and where they stand.
  CollectiveGroup& whole() { return whole_; }
  std::vector<RankCoordinates> whole_coordinates() const;
  // Experts (contracts/layout/parallel_dims.h). Ranks of a stage that share a micro-batch (tp * cp); those that hold
  // all experts together (ep * etp, etp fastest; the communicator is null where it is one rank); those of a micro-batch
  // with the same experts.
  CollectiveGroup& micro_batch() { return micro_batch_; }
  Communicator* expert_communicator() { return expert_ranks_.get(); }
  CollectiveGroup& expert_copies() { return expert_copies_; }
  std::int64_t deadline_ms() const { return deadline_ms_; }
  // All but the world's, each with its axis (engine/comm/mesh_axes.h).
  struct OnAxis {
    int axis;
    Communicator* communicator;
  };
  std::vector<OnAxis> on_axes() const;
  // Since the mesh was made, over all its communicators but the world's: time spent waiting, bytes given.
  std::int64_t waited_ns() const;
  std::int64_t bytes_given() const;
  CommunicationTable traffic() const;

 private:
  void make_expert_groups(Communicator& world);

  ParallelDims dims_;
  RankCoordinates at_;
  std::int64_t deadline_ms_ = 0;
  std::unique_ptr<Communicator> tensor_ranks_, data_ranks_, replica_ranks_, pipeline_ranks_, pipeline_end_ranks_,
      shard_ranks_, replicate_ranks_, context_ranks_, whole_ranks_, micro_batch_ranks_, expert_ranks_,
      expert_copy_ranks_, expert_data_ranks_, expert_shard_ranks_, expert_replicate_ranks_;
  CollectiveGroup world_, tensor_, data_, replica_, pipeline_, pipeline_ends_, shard_, replicates_, context_, whole_,
      micro_batch_, expert_copies_, expert_shard_, expert_replicates_;
};

}  // namespace longhaul
