#include "engine/train/optimizer.h"

#include "contracts/weight_decay.h"
#include "engine/ops/adamw.h"

namespace longhaul {

Optimizer::Optimizer(const ParameterLayout& layout, const std::vector<std::string>& no_decay, MemoryAccount* account)
    : exp_avg_(DType::f32, Shape{layout.owned().size()}, account),
      exp_avg_sq_(DType::f32, Shape{layout.owned().size()}, account) {
  for (const FlatParameter& p : layout.parameters()) {
    const bool decay = !without_decay(p.spec, no_decay);
    layout.owned().for_each_in({p.begin, p.end}, [&](FlatRange, FlatRange packed) {
      // Padding between neighbours is zero and stays zero.
      if (!ranges_.empty() && ranges_.back().decay == decay) {
        ranges_.back().end = packed.end;
      } else {
        ranges_.push_back({packed.begin, packed.end, decay});
      }
    });
  }
}

void Optimizer::update(const ComputeContext& context, ParameterStore& store, const OptimizerSettings& settings,
                       double lr, std::int64_t step, float grad_scale, std::span<const float> gradient) {
  AdamWStep adamw;
  adamw.lr = lr, adamw.beta1 = settings.beta1, adamw.beta2 = settings.beta2, adamw.eps = settings.eps;
  adamw.step = step, adamw.grad_scale = grad_scale;
  const View copy = store.compute_copy();
  for (const Range& range : ranges_) {
    adamw.weight_decay = range.decay ? settings.weight_decay : 0.0;
    const FlatRange packed{range.begin, range.end};
    adamw_update(context, adamw, part_of(store.masters(), packed), part_of(exp_avg(), packed),
                 part_of(exp_avg_sq(), packed), part_of(gradient, packed),
                 copy.empty() ? View() : copy.rows(range.begin, range.end));
  }
  store.shares_changed();
}

}  // namespace longhaul
