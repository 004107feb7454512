#include "engine/parallel/parameter_layout.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace longhaul {

namespace {

constexpr std::int64_t kAlignElements = 32;  // 64 bytes of bf16

// Parameters that follow their predecessor without padding, so that both make one matrix.
bool continues_fused(const ParameterSpec& spec, bool first_of_kind) {
  if (spec.expert >= 0) return !first_of_kind;
  return ends_with(spec.name, "self_attn.k_proj.weight") || ends_with(spec.name, "self_attn.v_proj.weight") ||
         ends_with(spec.name, "up_proj.weight");
}

std::int64_t round_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

// Ranks [0, shards) own a share of the section each, or all of it; `replicas` of them own the same.
FlatSection section_of_ranks(bool experts, FlatRange range, bool sharded, int shards, int shard, int replicas,
                             int replica) {
  FlatSection section;
  section.experts = experts, section.range = section.owned = range;
  if (sharded) {
    const std::int64_t share = range.size() / shards;
    section.owned = {range.begin + share * shard, range.begin + share * (shard + 1)};
  }
  const int parts = sharded ? replicas : replicas * shards;
  const int part = sharded ? replica : replica * shards + shard;
  const FlatRange all = section.owned;
  section.written = {all.begin + all.size() * part / parts, all.begin + all.size() * (part + 1) / parts};
  return section;
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelShape& shape, const MeshPlace& place) : place_(place) {
  const ParallelDims& dims = place.dims;
  const Result<ExpertDims> expert_dims = expert_dims_of(dims);
  LH_ASSERT(expert_dims.ok(), dims.to_string());
  const bool sharded = dims.zero > 0;
  std::int64_t at = 0;
  const auto add = [&](bool experts) {
    const ParameterSpec* before = nullptr;
    std::vector<ParameterSpec> list = parameter_list(shape);
    for (ParameterSpec& spec : list) {
      if ((spec.expert >= 0) != experts) continue;
      Box box = shard_of(spec, shape, dims, place.at);
      if (box.elements() == 0) continue;
      // Experts: all w1 and w3 of a layer, then all w2, which are split by columns.
      const bool first_of_kind = !before || before->layer != spec.layer || before->tp_dim != spec.tp_dim;
      if (!continues_fused(spec, first_of_kind)) at = round_up(at, kAlignElements);
      const std::int64_t end = at + box.elements();
      before = &spec;
      parameters_.push_back({spec, std::move(box), at, end});
      at = end;
    }
  };
  add(false);
  dense_size_ = at = round_up(at, kAlignElements * (sharded ? dims.dp_shard : 1));
  sections_.push_back(section_of_ranks(false, {0, dense_size_}, sharded, dims.dp_shard, place.at.dp_shard,
                                       dims.dp_replicate, place.at.dp_replicate));
  if (shape.is_moe()) {
    add(true);
    at = round_up(at - dense_size_, kAlignElements * (sharded ? expert_dims->dp_shard : 1)) + dense_size_;
    const ExpertCoordinates of = expert_coordinates_of(dims, place.at);
    sections_.push_back(section_of_ranks(true, {dense_size_, at}, sharded, expert_dims->dp_shard, of.dp_shard,
                                         expert_dims->dp_replicate, of.dp_replicate));
    sections_.back().owned_at = sections_.front().owned.size();
  }
  flat_size_ = at;
}

FlatRange intersection(FlatRange a, FlatRange b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

const FlatSection& ParameterLayout::section_of(const FlatParameter& parameter) const {
  return parameter.spec.expert >= 0 ? sections_.back() : sections_.front();
}

std::int64_t ParameterLayout::owned_size() const {
  return sections_.back().owned_at + sections_.back().owned.size();
}

const FlatParameter* ParameterLayout::find_if_held(const std::string& name) const {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const FlatParameter& p) { return p.spec.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

const FlatParameter& ParameterLayout::find(const std::string& name) const {
  const FlatParameter* found = find_if_held(name);
  LH_ASSERT(found != nullptr, name);
  return *found;
}

bool ParameterLayout::is_counted(const FlatParameter& parameter) const {
  if (parameter.spec.expert >= 0) return expert_coordinates_of(place_.dims, place_.at).copy == 0;
  const bool copy_of_split = parameter.spec.tp_dim < 0 && place_.at.tp > 0;
  const bool tied_output = parameter.spec.layer < 0 && !parameter.spec.last_stage && place_.at.pp > 0;
  return !copy_of_split && !tied_output;
}

bool ParameterLayout::is_counted_here(const FlatParameter& parameter) const {
  const bool of_expert = parameter.spec.expert >= 0;
  const ExpertCoordinates experts = expert_coordinates_of(place_.dims, place_.at);
  const int replicate = of_expert ? experts.dp_replicate : place_.at.dp_replicate;
  const int shard = of_expert ? experts.dp_shard : place_.at.dp_shard;
  return is_counted(parameter) && replicate == 0 && (shard == 0 || place_.dims.zero > 0);
}

}  // namespace longhaul
