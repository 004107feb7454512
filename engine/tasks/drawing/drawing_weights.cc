#include "engine/tasks/drawing/drawing_weights.h"

#include <utility>

#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

bool computes_with_others(const ParallelDims& dims) {
  return holds_parts(dims) || dims.cp > 1;
}

bool draws_with_masters(const ParallelDims& dims, const ParameterStore& store) {
  return dims.zero == 3 && !store.is_adapted();
}

HeldParameter held_as_computed(const ComputeContext& context, const ParameterStore& store) {
  const auto values = std::make_shared<Tensor>();
  return [&context, &store, values](const FlatParameter& p) -> Result<std::span<const float>> {
    *values = Tensor(DType::f32, {p.end - p.begin});
    cast(context, store.vector(p.begin, p.end - p.begin), *values);
    return std::as_const(*values).span<float>();
  };
}

// Without ZeRO 3 each replica has its compute weights, and ranks of others, which may answer more or less often, are
// not waited for, unless they have experts of it.
DrawingWeights::Gathered DrawingWeights::gather_on_host(const ComputeContext& context,
                                                        const ParameterStore& store) const {
  auto part = std::make_unique<ParameterStore>(store.shape(), DType::f32, nullptr, place_);
  if (draws_with_masters(mesh_.dims(), store)) {
    LH_CHECK(gather_masters(mesh_, store.shape(), store.layout(), {store.masters(), store.device()}, part->layout(),
                            part->masters()));
    return part;
  }
  const HeldParameter held = held_as_computed(context, store);
  LH_CHECK(gather_parameters(mesh_, store.shape(), store.layout(), held, part->layout(), part->masters()));
  LH_CHECK(store.status());
  return part;
}

// With ZeRO 3 a unit comes from the ranks that share it as it does for a step, and goes on to those that have none of
// it: all in the order of the parameters.
DrawingWeights::Gathered DrawingWeights::gather_on_device(const ComputeContext& context,
                                                          const ParameterStore& store) const {
  auto part = std::make_unique<ParameterStore>(
      ParameterStore::frozen(store.shape(), store.compute_dtype(), memory_.get(), place_));
  LH_ASSERT(part->device() == store.device(), "weights are gathered where the training has them");
  const auto held = [&](const FlatParameter& p) { return store.vector(p.begin, p.end - p.begin); };
  LH_CHECK(gather_parameters(context, mesh_, store.shape(), store.layout(), held, part->layout(),
                             part->frozen_weights(), account_of(memory_.get(), MemoryCategory::weights)));
  LH_CHECK(store.status());
  return part;
}

Status DrawingWeights::gather(const ComputeContext& context, const ParameterStore& store, std::int64_t version) {
  if (draws_with_its_own(mesh_.dims(), place_.dims) || (gathered_ && version_ == version)) return {};
  release();  // before others take as much again
  LH_TRY(gathered_, store.device() ? gather_on_device(context, store) : gather_on_host(context, store));
  version_ = version;
  return {};
}

Result<InferenceWeights> DrawingWeights::weights(const ComputeContext& context, const ParameterStore& store,
                                                 DType dtype, MemoryAccount* account) const {
  const ParameterStore& from = gathered(store);
  return inference_weights_of(context, from, weights_to_fill(dtype, from.device(), account));
}

}  // namespace longhaul
