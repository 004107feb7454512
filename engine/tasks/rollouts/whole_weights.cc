#include "engine/tasks/rollouts/whole_weights.h"

#include <utility>

#include "engine/ops/pointwise/elementwise.h"
#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

bool is_only_replicas(const ParallelDims& dims) {
  ParallelDims replicas;
  replicas.dp_replicate = dims.dp_replicate;
  return dims == replicas;
}

bool holds_parts(const ParallelDims& dims) {
  return dims.tp > 1 || dims.pp > 1 || dims.ep > 1 || dims.etp > 1 || dims.zero == 3;
}

bool computes_with_others(const ParallelDims& dims) {
  return holds_parts(dims) || dims.cp > 1;
}

// With ZeRO 3 compute weights pass by unit by unit, so masters are gathered. Else each replica has its compute weights,
// and ranks of others, which may answer more or less often, are not waited for, unless they have experts of it.
Status WholeWeights::gather(const ComputeContext& context, const ParameterStore& store, std::int64_t version) {
  if (!holds_parts(mesh_.dims()) || (whole_ && version_ == version)) return {};
  auto whole = std::make_unique<ParameterStore>(store.shape(), DType::f32);
  if (mesh_.dims().zero == 3) {
    LH_CHECK(gather_masters(mesh_, store.shape(), store.layout(), {store.masters(), store.device()}, whole->layout(),
                            whole->masters()));
  } else {
    Tensor values;
    const auto held = [&](const FlatParameter& p) -> Result<std::span<const float>> {
      values = Tensor(DType::f32, {p.end - p.begin});
      cast(context, store.vector(p.begin, p.end - p.begin), values);
      return std::as_const(values).span<float>();
    };
    LH_CHECK(gather_parameters(mesh_, store.shape(), store.layout(), held, whole->layout(), whole->masters()));
  }
  whole_ = std::move(whole), version_ = version;
  return {};
}

Result<InferenceWeights> WholeWeights::weights(const ComputeContext& context, const ParameterStore& store, DType dtype,
                                               MemoryAccount* account) const {
  InferenceWeights empty;
  empty.dtype = dtype;
  if (Device* device = whole(store).device()) {
    empty.memory = std::make_unique<MemoryAccount>();
    empty.memory->device = device, empty.memory->whole = account;
  }
  return inference_weights_of(context, whole(store), std::move(empty));
}

}  // namespace longhaul
