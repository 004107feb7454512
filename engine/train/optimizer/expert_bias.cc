#include "engine/train/optimizer/expert_bias.h"

#include <vector>

#include "engine/core/tensor/transfer.h"
#include "engine/ops/experts/moe_router.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

void step_expert_bias(const ComputeContext& context, ParameterStore& store, std::span<Llama* const> stages, int layer,
                      float rate, std::span<const float> counts) {
  const auto experts = static_cast<std::int64_t>(counts.size());
  std::vector<float> change(counts.size(), 0.0F);
  moe_bias_update(rate, counts, change);
  MemoryAccount place{.device = context.device()};
  Tensor placed(DType::f32, Shape{experts}, &place);
  copy_in(context, ConstView(change), placed);
  const std::span<const float> added = placed.span<float>();
  for (const Llama* stage : stages)
    if (const std::int64_t begin = stage->router_bias_begin(layer); begin >= 0)
      store.layout().owned().for_each_in({begin, begin + experts}, [&](FlatRange flat, FlatRange packed) {
        const FlatRange here{flat.begin - begin, flat.end - begin};
        axpy(context, 1.0F, part_of(added, here), part_of(store.masters(), packed));
      });
}

}  // namespace longhaul
