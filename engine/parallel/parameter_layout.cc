#include "engine/parallel/parameter_layout.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace longhaul {

namespace {

constexpr std::int64_t kAlignElements = 32;  // 64 bytes of bf16

// Parameters that follow their predecessor without padding, so that both make one matrix.
bool continues_fused(const std::string& name) {
  return ends_with(name, "self_attn.k_proj.weight") || ends_with(name, "self_attn.v_proj.weight") ||
         ends_with(name, "mlp.up_proj.weight");
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelShape& shape, const MeshPlace& place) : place_(place) {
  std::int64_t at = 0;
  for (ParameterSpec& spec : parameter_list(shape)) {
    Box box = shard_of(spec, shape, place.dims, place.at);
    if (box.elements() == 0) continue;
    if (!continues_fused(spec.name)) at = (at + kAlignElements - 1) / kAlignElements * kAlignElements;
    const std::int64_t end = at + box.elements();
    parameters_.push_back({std::move(spec), std::move(box), at, end});
    at = end;
  }
  const std::int64_t unit = kAlignElements * (place.dims.zero > 0 ? place.dims.dp_shard : 1);
  flat_size_ = (at + unit - 1) / unit * unit;
}

FlatRange intersection(FlatRange a, FlatRange b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

FlatRange ParameterLayout::owned() const {
  if (place_.dims.zero == 0) return {0, flat_size_};
  const std::int64_t share = flat_size_ / place_.dims.dp_shard;
  return {share * place_.at.dp_shard, share * (place_.at.dp_shard + 1)};
}

FlatRange ParameterLayout::written() const {
  const bool sharded = place_.dims.zero > 0;
  const int parts = sharded ? place_.dims.dp_replicate : place_.dims.dp();
  const int part = sharded ? place_.at.dp_replicate : place_.at.dp(place_.dims);
  const FlatRange all = owned();
  return {all.begin + all.size() * part / parts, all.begin + all.size() * (part + 1) / parts};
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
