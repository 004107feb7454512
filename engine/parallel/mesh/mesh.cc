#include "engine/parallel/mesh/mesh.h"

#include <utility>

#include "base/text/text.h"
#include "engine/comm/mesh_axes.h"

namespace longhaul {
namespace {

// The ranks of the world that stand where `at` does in all that `same` compares, in the world's order.
template <class Same>
std::vector<int> ranks_where(const ParallelDims& dims, Same&& same) {
  std::vector<int> ranks;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    if (same(coordinates_of(dims, rank))) ranks.push_back(rank);
  return ranks;
}

}  // namespace

namespace {

// Neighbouring replicas that hold one set of experts together.
int set_of_experts(const ParallelDims& dims, const RankCoordinates& at) {
  return at.dp(dims) / expert_dims_of(dims)->batches;
}

}  // namespace

std::vector<RankCoordinates> Mesh::whole_coordinates() const {
  std::vector<RankCoordinates> all;
  for (int rank = 0; rank < dims_.world_size(); ++rank)
    if (const RankCoordinates one = coordinates_of(dims_, rank);
        set_of_experts(dims_, one) == set_of_experts(dims_, at_))
      all.push_back(one);
  return all;
}

void Mesh::make_expert_groups(Communicator& world) {
  const ExpertCoordinates here = expert_coordinates_of(dims_, at_);
  const auto make = [&](int axis, const char* name, std::unique_ptr<Communicator>& ranks, CollectiveGroup* group,
                        const auto& same) {
    const std::vector<int> members = ranks_where(dims_, same);
    if (members.size() < 2) return;
    ranks = world.subgroup(axis, name, members);
    if (group) *group = CollectiveGroup(*ranks, deadline_ms_);
  };
  // Of the stage's ranks, those that are as this one but for what `but` lets go.
  const auto alike = [&](const auto& but) {
    return [this, here, but](const RankCoordinates& other) {
      ExpertCoordinates there = expert_coordinates_of(dims_, other);
      but(there);
      return other.pp == at_.pp && there == here;
    };
  };
  make(whole_axis, "whole model", whole_ranks_, &whole_,
       [&](const RankCoordinates& other) { return set_of_experts(dims_, other) == set_of_experts(dims_, at_); });
  make(micro_batch_axis, "micro-batch", micro_batch_ranks_, &micro_batch_,
       [&](const RankCoordinates& other) { return other.pp == at_.pp && other.dp(dims_) == at_.dp(dims_); });
  make(expert_axis, "experts", expert_ranks_, nullptr,
       alike([here](ExpertCoordinates& there) { there.etp = here.etp, there.ep = here.ep; }));
  make(expert_copy_axis, "expert copies", expert_copy_ranks_, &expert_copies_,
       alike([here](ExpertCoordinates& there) { there.copy = here.copy; }));
  make(expert_data_axis, "expert data", expert_data_ranks_, nullptr, alike([here](ExpertCoordinates& there) {
         there.dp_shard = here.dp_shard, there.dp_replicate = here.dp_replicate;
       }));
  make(expert_shard_axis, "expert shard", expert_shard_ranks_, &expert_shard_,
       alike([here](ExpertCoordinates& there) { there.dp_shard = here.dp_shard; }));
  make(expert_replicate_axis, "expert replicas", expert_replicate_ranks_, &expert_replicates_,
       alike([here](ExpertCoordinates& there) { there.dp_replicate = here.dp_replicate; }));
}

std::vector<Mesh::OnAxis> Mesh::on_axes() const {
  const std::pair<int, const std::unique_ptr<Communicator>*> all[] = {
      {tensor_axis, &tensor_ranks_},
      {data_axis, &data_ranks_},
      {replica_axis, &replica_ranks_},
      {pipeline_axis, &pipeline_ranks_},
      {pipeline_ends_axis, &pipeline_end_ranks_},
      {shard_axis, &shard_ranks_},
      {replicate_axis, &replicate_ranks_},
      {context_axis, &context_ranks_},
      {whole_axis, &whole_ranks_},
      {micro_batch_axis, &micro_batch_ranks_},
      {expert_axis, &expert_ranks_},
      {expert_copy_axis, &expert_copy_ranks_},
      {expert_data_axis, &expert_data_ranks_},
      {expert_shard_axis, &expert_shard_ranks_},
      {expert_replicate_axis, &expert_replicate_ranks_}};
  std::vector<OnAxis> made;
  for (const auto& [axis, one] : all)
    if (*one) made.push_back({axis, one->get()});
  return made;
}

std::int64_t Mesh::waited_ns() const {
  std::uint64_t sum = 0;
  for (const OnAxis& one : on_axes()) sum += one.communicator->counters().waited_ns.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(sum);
}

std::int64_t Mesh::bytes_given() const {
  std::uint64_t sum = 0;
  for (const OnAxis& one : on_axes()) sum += one.communicator->counters().given.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(sum);
}

CommunicationTable Mesh::traffic() const {
  CommunicationTable table;
  const auto add = [&](MeshAxis axis, std::initializer_list<const Communicator*> ranks) {
    for (const Communicator* one : ranks) {
      if (!one) continue;
      table[axis].given += static_cast<std::int64_t>(one->counters().given.load(std::memory_order_relaxed));
      table[axis].sent += static_cast<std::int64_t>(one->counters().sent.load(std::memory_order_relaxed));
    }
  };
  add(MeshAxis::tp, {tensor_ranks_.get()});
  add(MeshAxis::cp, {context_ranks_.get()});
  add(MeshAxis::pp, {pipeline_ranks_.get(), pipeline_end_ranks_.get()});
  add(MeshAxis::ep, {micro_batch_ranks_.get(), expert_ranks_.get()});
  add(MeshAxis::dp, {data_ranks_.get(), shard_ranks_.get(), replicate_ranks_.get(), expert_copy_ranks_.get(),
                     expert_data_ranks_.get(), expert_shard_ranks_.get(), expert_replicate_ranks_.get()});
  add(MeshAxis::other, {replica_ranks_.get(), whole_ranks_.get()});
  return table;
}

Result<std::unique_ptr<Mesh>> Mesh::create(const ParallelDims& dims, Communicator& world, std::int64_t deadline_ms) {
  if (dims.world_size() != world.size())
    return make_error(ErrorCode::invalid_input, format("layout {} has {} ranks, the launch has {}", dims.to_string(),
                                                       dims.world_size(), world.size()));
  auto mesh = std::make_unique<Mesh>();
  mesh->dims_ = dims;
  mesh->at_ = coordinates_of(dims, world.rank());
  mesh->deadline_ms_ = deadline_ms;
  mesh->world_ = CollectiveGroup(world, deadline_ms);
  const RankCoordinates& at = mesh->at_;
  const auto make = [&](int axis, const char* name, const std::vector<int>& ranks) {
    return ranks.size() > 1 ? world.subgroup(axis, name, ranks) : nullptr;
  };
  mesh->tensor_ranks_ = make(tensor_axis, "tp", ranks_where(dims, [&](RankCoordinates other) {
                               other.tp = at.tp;
                               return other == at;
                             }));
  mesh->context_ranks_ = make(context_axis, "cp", ranks_where(dims, [&](RankCoordinates other) {
                                other.cp = at.cp;
                                return other == at;
                              }));
  if (mesh->context_ranks_) mesh->context_ = CollectiveGroup(*mesh->context_ranks_, deadline_ms);
  mesh->data_ranks_ = make(data_axis, "dp", ranks_where(dims, [&](const RankCoordinates& other) {
                             return other.tp == at.tp && other.cp == at.cp && other.pp == at.pp;
                           }));
  mesh->replica_ranks_ =
      make(replica_axis, "replica",
           ranks_where(dims, [&](const RankCoordinates& other) { return other.dp(dims) == at.dp(dims); }));
  mesh->shard_ranks_ = make(shard_axis, "dp_shard", ranks_where(dims, [&](RankCoordinates other) {
                              other.dp_shard = at.dp_shard;
                              return other == at;
                            }));
  mesh->replicate_ranks_ = make(replicate_axis, "dp_replicate", ranks_where(dims, [&](RankCoordinates other) {
                                  other.dp_replicate = at.dp_replicate;
                                  return other == at;
                                }));
  if (mesh->shard_ranks_) mesh->shard_ = CollectiveGroup(*mesh->shard_ranks_, deadline_ms);
  if (mesh->replicate_ranks_) mesh->replicates_ = CollectiveGroup(*mesh->replicate_ranks_, deadline_ms);
  const auto same_pipeline = [&](const RankCoordinates& other) {
    RankCoordinates here = at;
    here.pp = other.pp;
    return other == here;
  };
  mesh->pipeline_ranks_ = make(pipeline_axis, "pp", ranks_where(dims, same_pipeline));
  const auto is_end = [&](int stage) { return stage == 0 || stage == dims.pp - 1; };
  if (dims.pp > 1 && is_end(at.pp))
    mesh->pipeline_end_ranks_ =
        make(pipeline_ends_axis, "pipeline ends",
             ranks_where(dims, [&](const RankCoordinates& other) { return same_pipeline(other) && is_end(other.pp); }));
  if (mesh->pipeline_ranks_) mesh->pipeline_ = CollectiveGroup(*mesh->pipeline_ranks_, deadline_ms);
  if (mesh->pipeline_end_ranks_) mesh->pipeline_ends_ = CollectiveGroup(*mesh->pipeline_end_ranks_, deadline_ms);
  if (mesh->tensor_ranks_) mesh->tensor_ = CollectiveGroup(*mesh->tensor_ranks_, deadline_ms);
  if (mesh->data_ranks_) mesh->data_ = CollectiveGroup(*mesh->data_ranks_, deadline_ms);
  if (mesh->replica_ranks_) mesh->replica_ = CollectiveGroup(*mesh->replica_ranks_, deadline_ms);
  LH_CHECK(expert_dims_of(dims));
  mesh->make_expert_groups(world);
  return mesh;
}

}  // namespace longhaul
