#include "contracts/model/parameter_layout.h"

#include <algorithm>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::int64_t kAlignElements = 32;  // 64 bytes of bf16

// Parameters that follow their predecessor without padding, so that both make one matrix.
// Of a layer's experts those are all w1 and w3, then all w2, which are split by columns.
bool continues_fused(const ParameterSpec& spec, const std::vector<FlatParameter>& before) {
  if (spec.expert >= 0)
    return !before.empty() && before.back().spec.layer == spec.layer && before.back().spec.tp_dim == spec.tp_dim &&
           before.back().spec.expert >= 0;
  for (const char* follower : {"attn.k_proj.weight", "attn.v_proj.weight", "attn.k_proj.bias", "attn.v_proj.bias",
                               "mlp.up_proj.weight", "shared_experts.up_proj.weight"})
    if (ends_with(spec.name, follower)) return true;
  return false;
}

bool is_of_encoder(const ParameterSpec& spec) {
  return starts_with(spec.name, prompt_encoder_prefix);
}

// In one unit: a block but for its experts, those, or what follows the last block. Each embedding is one of its own: a
// tied one stands beside other parameters on the last stage than on the first, and their shares of it must be the same.
// The encoder of p-tuning is one, since what it makes, and its gradients, take all of it at once.
bool belong_together(const ParameterSpec& a, const ParameterSpec& b) {
  if ((a.expert >= 0) != (b.expert >= 0)) return false;
  if (is_of_encoder(a) && is_of_encoder(b)) return true;
  return a.layer == b.layer && (a.layer >= 0 || (a.last_stage && b.last_stage));
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelShape& shape, const MeshPlace& place) : place_(place) {
  if (place_.stages.layers.empty())
    place_.stages = even_stages(static_cast<int>(shape.num_hidden_layers), place.dims.pp, place.dims.vp);
  std::int64_t at = 0;
  for (ParameterSpec& spec : parameter_list(shape)) {
    Box box = shard_of(spec, shape, place.dims, place.at, place_.stages);
    if (box.elements() == 0) continue;
    const bool same_unit = !parameters_.empty() && belong_together(parameters_.back().spec, spec);
    if (!parameters_.empty() && !same_unit) close_unit(at, parameters_.back().spec.expert >= 0), at = flat_size_;
    if (!continues_fused(spec, parameters_)) at = (at + kAlignElements - 1) / kAlignElements * kAlignElements;
    const std::int64_t end = at + box.elements();
    parameters_.push_back({std::move(spec), std::move(box), at, end});
    at = end;
  }
  if (!parameters_.empty()) close_unit(at, parameters_.back().spec.expert >= 0);
  std::vector<FlatRange> owned;
  for (const ShardUnit& unit : units_) owned.push_back(unit.owned());
  owned_ = PackedRanges(owned);
}

// Units begin where the one before ends; a few elements of padding make equal shares.
void ParameterLayout::close_unit(std::int64_t end, bool experts) {
  const ParallelDims& dims = place_.dims;
  ShardUnit unit;
  unit.experts = experts;
  unit.shards = dims.dp_shard, unit.share = place_.at.dp_shard;
  unit.replicas = dims.dp_replicate, unit.replica = place_.at.dp_replicate;
  if (experts) {
    const Result<ExpertDims> expert_dims = expert_dims_of(dims);
    const ExpertCoordinates at = expert_coordinates_of(dims, place_.at);
    unit.shards = expert_dims->dp_shard, unit.share = at.dp_shard;
    unit.replicas = expert_dims->dp_replicate, unit.replica = at.dp_replicate;
  }
  if (dims.zero == 0) {
    unit.replica = unit.replica * unit.shards + unit.share, unit.replicas *= unit.shards;
    unit.shards = 1, unit.share = 0;
  }
  const std::int64_t multiple = kAlignElements * unit.shards;
  unit.flat = {flat_size_, flat_size_ + (end - flat_size_ + multiple - 1) / multiple * multiple};
  units_.push_back(unit);
  flat_size_ = unit.flat.end;
}

std::vector<FlatRange> ParameterLayout::written() const {
  std::vector<FlatRange> ranges;
  for (const ShardUnit& unit : units_) {
    const FlatRange all = unit.owned();
    ranges.push_back({all.begin + all.size() * unit.replica / unit.replicas,
                      all.begin + all.size() * (unit.replica + 1) / unit.replicas});
  }
  return ranges;
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
  if (parameter.spec.expert >= 0) {
    const ExpertCoordinates at = expert_coordinates_of(place_.dims, place_.at);
    return at.copy == 0 && (parameter.spec.tp_dim >= 0 || at.etp == 0);
  }
  const bool copy_of_split = parameter.spec.tp_dim < 0 && place_.at.tp > 0;
  const bool tied_output = parameter.spec.layer < 0 && !parameter.spec.last_stage && place_.at.pp > 0;
  return !copy_of_split && !tied_output && place_.at.cp == 0;
}

bool ParameterLayout::is_counted_here(const FlatParameter& parameter) const {
  const auto unit = std::ranges::find_if(units_, [&](const ShardUnit& u) { return parameter.begin < u.flat.end; });
  return unit->replica == 0 && is_counted(parameter);
}

}  // namespace longhaul
