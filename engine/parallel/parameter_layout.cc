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
  flat_size_ = (at + kAlignElements - 1) / kAlignElements * kAlignElements;
}

const FlatParameter& ParameterLayout::find(const std::string& name) const {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const FlatParameter& p) { return p.spec.name == name; });
  LH_ASSERT(found != parameters_.end(), name);
  return *found;
}

}  // namespace longhaul
