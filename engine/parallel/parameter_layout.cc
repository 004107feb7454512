#include "engine/parallel/parameter_layout.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace longhaul {

namespace {

constexpr std::int64_t kAlignElements = 32;  // 64 bytes of bf16

// Parameters that follow their predecessor without padding, so that both make one matrix.
bool continues_fused(const std::string& name) {
  for (const char* follower :
       {"attn.k_proj.weight", "attn.v_proj.weight", "attn.k_proj.bias", "attn.v_proj.bias", "mlp.up_proj.weight"})
    if (ends_with(name, follower)) return true;
  return false;
}

// In one unit: a block, or what follows the last of them. Each embedding is one of its own: a tied one stands beside
// other parameters on the last stage than on the first, and their shares of it must be the same.
bool belong_together(const ParameterSpec& a, const ParameterSpec& b) {
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
    if (!parameters_.empty() && !same_unit) close_unit(at), at = flat_size_;
    if (!continues_fused(spec.name)) at = (at + kAlignElements - 1) / kAlignElements * kAlignElements;
    const std::int64_t end = at + box.elements();
    parameters_.push_back({std::move(spec), std::move(box), at, end});
    at = end;
  }
  close_unit(at);
  std::vector<FlatRange> owned;
  for (const ShardUnit& unit : units_) owned.push_back(unit.owned());
  owned_ = PackedRanges(owned);
}

// Units begin where the one before ends; a few elements of padding make equal shares.
void ParameterLayout::close_unit(std::int64_t end) {
  ShardUnit unit;
  if (place_.dims.zero > 0) unit.shards = place_.dims.dp_shard, unit.share = place_.at.dp_shard;
  const std::int64_t multiple = kAlignElements * unit.shards;
  unit.flat = {flat_size_, flat_size_ + (end - flat_size_ + multiple - 1) / multiple * multiple};
  units_.push_back(unit);
  flat_size_ = unit.flat.end;
}

std::vector<FlatRange> ParameterLayout::written() const {
  const bool sharded = place_.dims.zero > 0;
  const int parts = sharded ? place_.dims.dp_replicate : place_.dims.dp();
  const int part = sharded ? place_.at.dp_replicate : place_.at.dp(place_.dims);
  std::vector<FlatRange> ranges;
  for (const ShardUnit& unit : units_) {
    const FlatRange all = unit.owned();
    ranges.push_back({all.begin + all.size() * part / parts, all.begin + all.size() * (part + 1) / parts});
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
  const bool copy_of_split = parameter.spec.tp_dim < 0 && place_.at.tp > 0;
  const bool tied_output = parameter.spec.layer < 0 && !parameter.spec.last_stage && place_.at.pp > 0;
  return !copy_of_split && !tied_output && place_.at.cp == 0;
}

}  // namespace longhaul
