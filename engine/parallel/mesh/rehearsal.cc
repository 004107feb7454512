#include "engine/parallel/mesh/rehearsal.h"

#include "contracts/pipeline/pipeline_messages.h"
#include "engine/comm/mesh_axes.h"
#include "engine/comm/nccl_lanes.h"

namespace longhaul {
namespace {

bool takes_part(int axis, const ParallelDims& dims, bool experts) {
  const bool shards = dims.zero > 0;
  switch (axis) {
    case shard_axis:
    case replicate_axis: return shards;
    case expert_data_axis: return experts && !shards;
    case expert_shard_axis:
    case expert_replicate_axis: return experts && shards;
    case micro_batch_axis:
    case expert_axis:
    case expert_copy_axis:
    case expert_tensor_axis: return experts;
    default: return true;
  }
}

class Rehearsal {
 public:
  explicit Rehearsal(Communicator& ranks, std::int64_t deadline_ms)
      : ranks_(ranks), deadline_ms_(deadline_ms), out_(static_cast<std::size_t>(ranks.size())), in_(out_.size()) {}

  Status collectives() {
    LH_CHECK(wait(ranks_.barrier()));
    LH_CHECK(wait(ranks_.all_to_all(out_, in_)));
    return wait(ranks_.all_gather(one(out_), in_));
  }
  // With each of the others.
  Status exchanges(int tag) {
    const int own = ranks_.rank(), n = ranks_.size();
    for (int turn = 1; turn < n; ++turn)
      LH_CHECK(wait(ranks_.exchange(one(out_), (own + turn) % n, one(in_), (own - turn + n) % n, tag)));
    return {};
  }
  Status message(int from, int to, int tag) {
    if (ranks_.rank() == from) return wait(ranks_.send(one(out_), to, tag));
    if (ranks_.rank() == to) return wait(ranks_.recv(one(in_), from, tag));
    return {};
  }

 private:
  static Bytes one(std::vector<std::byte>& bytes) { return Bytes(bytes).first(1); }
  Status wait(Request request) { return ranks_.wait(std::move(request), deadline_ms_); }

  Communicator& ranks_;
  std::int64_t deadline_ms_;
  std::vector<std::byte> out_, in_;
};

// What stages hand on, link by link, each rank its own in one order.
Status messages(Rehearsal& rehearsal, const ParallelDims& dims) {
  using Kind = ScheduleOp::Kind;
  for (const Kind kind : {Kind::forward, Kind::backward_input})
    for (int chunk = 0; chunk < std::min(dims.vp, 2); ++chunk)
      for (int stage = 0; stage < dims.pp; ++stage)
        if (const auto to = pipeline_messages(dims.pp, dims.vp, stage, {kind, 0, chunk}).send)
          LH_CHECK(rehearsal.message(stage, to->pp_rank, to->tag));
  return {};
}

}  // namespace

Status rehearse(CollectiveGroup& group) {
  Communicator* const ranks = group.communicator();
  return ranks ? Rehearsal(*ranks, group.deadline_ms()).collectives() : Status();
}

Status rehearse(Mesh& mesh, bool experts) {
  if (Communicator* const world = mesh.world().communicator())
    LH_CHECK(Rehearsal(*world, mesh.deadline_ms()).collectives());
  for (const auto& [axis, communicator] : mesh.on_axes()) {
    if (!takes_part(axis, mesh.dims(), experts)) continue;
    Rehearsal rehearsal(*communicator, mesh.deadline_ms());
    LH_CHECK(rehearsal.collectives());
    for (const NcclLaneUse& use : all_nccl_lanes())
      if (use.axis == axis && use.lane.kind == NcclLane::Kind::exchanges) LH_CHECK(rehearsal.exchanges(use.lane.tag));
    if (axis == pipeline_axis) LH_CHECK(messages(rehearsal, mesh.dims()));
  }
  return {};
}

}  // namespace longhaul
