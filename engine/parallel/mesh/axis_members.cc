#include "engine/parallel/mesh/axis_members.h"

#include "contracts/layout/axis_ranks.h"
#include "engine/comm/mesh_axes.h"

namespace longhaul {
namespace {

// The ranks of the world that stand where `same` says, in the world's order.
template <class Same>
std::vector<int> ranks_where(const ParallelDims& dims, const Same& same) {
  std::vector<int> ranks;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    if (same(coordinates_of(dims, rank))) ranks.push_back(rank);
  return ranks;
}

std::vector<int> pipeline_end_ranks(const ParallelDims& dims, const RankCoordinates& at) {
  std::vector<int> ends;
  const auto is_end = [&](int stage) { return stage == 0 || stage == dims.pp - 1; };
  if (!is_end(at.pp)) return ends;
  for (const int rank : ranks_along(dims, at, &RankCoordinates::pp))
    if (is_end(coordinates_of(dims, rank).pp)) ends.push_back(rank);
  return ends;
}

// Neighbouring replicas that hold one set of experts together.
int set_of_experts(const ParallelDims& dims, const RankCoordinates& at) {
  return at.dp(dims) / expert_dims_of(dims)->batches;
}

}  // namespace

const char* axis_name(int axis) {
  switch (axis) {
    case world_axis: return "world";
    case tensor_axis: return "tp";
    case data_axis: return "dp";
    case replica_axis: return "replica";
    case pipeline_axis: return "pp";
    case pipeline_ends_axis: return "pipeline ends";
    case shard_axis: return "dp_shard";
    case replicate_axis: return "dp_replicate";
    case context_axis: return "cp";
    case whole_axis: return "whole model";
    case micro_batch_axis: return "micro-batch";
    case expert_axis: return "experts";
    case expert_copy_axis: return "expert copies";
    case expert_data_axis: return "expert data";
    case expert_shard_axis: return "expert shard";
    case expert_replicate_axis: return "expert replicas";
    case expert_tensor_axis: return "etp";
  }
  return "";
}

std::vector<int> axis_members(int axis, const ParallelDims& dims, const RankCoordinates& at) {
  switch (axis) {
    case tensor_axis: return ranks_along(dims, at, &RankCoordinates::tp);
    case context_axis: return ranks_along(dims, at, &RankCoordinates::cp);
    case shard_axis: return ranks_along(dims, at, &RankCoordinates::dp_shard);
    case replicate_axis: return ranks_along(dims, at, &RankCoordinates::dp_replicate);
    case pipeline_axis: return ranks_along(dims, at, &RankCoordinates::pp);
    case pipeline_ends_axis: return pipeline_end_ranks(dims, at);
    case data_axis:
      return ranks_where(dims, [&](const RankCoordinates& other) {
        return other.tp == at.tp && other.cp == at.cp && other.pp == at.pp;
      });
    case replica_axis:
      return ranks_where(dims, [&](const RankCoordinates& other) { return other.dp(dims) == at.dp(dims); });
    case whole_axis:
      return ranks_where(dims, [&, set = set_of_experts(dims, at)](const RankCoordinates& other) {
        return set_of_experts(dims, other) == set;
      });
    case micro_batch_axis:
      return ranks_where(
          dims, [&](const RankCoordinates& other) { return other.pp == at.pp && other.dp(dims) == at.dp(dims); });
    case expert_axis: return expert_ranks_along(dims, at, {&ExpertCoordinates::etp, &ExpertCoordinates::ep});
    case expert_copy_axis: return expert_ranks_along(dims, at, {&ExpertCoordinates::copy});
    case expert_data_axis:
      return expert_ranks_along(dims, at, {&ExpertCoordinates::dp_shard, &ExpertCoordinates::dp_replicate});
    case expert_shard_axis: return expert_ranks_along(dims, at, {&ExpertCoordinates::dp_shard});
    case expert_replicate_axis: return expert_ranks_along(dims, at, {&ExpertCoordinates::dp_replicate});
    case expert_tensor_axis: return expert_ranks_along(dims, at, {&ExpertCoordinates::etp});
    default: return {};
  }
}

std::vector<RankCoordinates> whole_model_coordinates(const ParallelDims& dims, const RankCoordinates& at) {
  std::vector<RankCoordinates> all;
  for (const int rank : axis_members(whole_axis, dims, at)) all.push_back(coordinates_of(dims, rank));
  return all;
}

}  // namespace longhaul
