#include "engine/tasks/rollouts/whole_weights.h"

#include <utility>

#include "engine/ops/pointwise/elementwise.h"
#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

bool holds_parts(const ParallelDims& dims) {
  return dims.tp > 1 || dims.pp > 1 || dims.ep > 1 || dims.etp > 1 || dims.zero == 3;
}

bool computes_with_others(const ParallelDims& dims) {
  return holds_parts(dims) || dims.cp > 1;
}

// With ZeRO 3 compute weights pass by unit by unit, so masters are gathered. Else each replica has its compute weights,
// and ranks of others, which may answer more or less often, are not waited for, unless they have experts of it.
WholeWeights::Gathered WholeWeights::gather_on_host(const ComputeContext& context, const ParameterStore& store) const {
  auto whole = std::make_unique<ParameterStore>(store.shape(), DType::f32);
  if (mesh_.dims().zero == 3) {
    LH_CHECK(gather_masters(mesh_, store.shape(), store.layout(), {store.masters(), store.device()}, whole->layout(),
                            whole->masters()));
    return whole;
  }
  Tensor values;
  const auto held = [&](const FlatParameter& p) -> Result<std::span<const float>> {
    values = Tensor(DType::f32, {p.end - p.begin});
    cast(context, store.vector(p.begin, p.end - p.begin), values);
    return std::as_const(values).span<float>();
  };
  LH_CHECK(gather_parameters(mesh_, store.shape(), store.layout(), held, whole->layout(), whole->masters()));
  return whole;
}

// With ZeRO 3 a unit comes from the ranks that share it as it does for a step, and goes on to those that have none of
// it: all in the order of the parameters.
WholeWeights::Gathered WholeWeights::gather_on_device(const ComputeContext& context,
                                                      const ParameterStore& store) const {
  auto whole =
      std::make_unique<ParameterStore>(ParameterStore::frozen(store.shape(), store.compute_dtype(), memory_.get(), {}));
  LH_ASSERT(whole->device() == store.device(), "weights are gathered where the training has them");
  const auto held = [&](const FlatParameter& p) { return store.vector(p.begin, p.end - p.begin); };
  LH_CHECK(gather_parameters(context, mesh_, store.shape(), store.layout(), held, whole->layout(),
                             whole->frozen_weights(), account_of(memory_.get(), MemoryCategory::weights)));
  LH_CHECK(store.status());
  return whole;
}

Status WholeWeights::gather(const ComputeContext& context, const ParameterStore& store, std::int64_t version) {
  if (!holds_parts(mesh_.dims()) || (whole_ && version_ == version)) return {};
  release();  // before others take as much again
  LH_TRY(whole_, store.device() ? gather_on_device(context, store) : gather_on_host(context, store));
  version_ = version;
  return {};
}

Result<InferenceWeights> WholeWeights::weights(const ComputeContext& context, const ParameterStore& store, DType dtype,
                                               MemoryAccount* account) const {
  const ParameterStore& from = whole(store);
  return inference_weights_of(context, from, weights_to_fill(dtype, from.device(), account));
}

}  // namespace longhaul
