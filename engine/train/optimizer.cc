#include "engine/train/optimizer.h"

#include "engine/ops/adamw.h"

namespace longhaul {

Optimizer::Optimizer(const ParameterLayout& layout, MemoryAccount* account)
    : owned_(layout.owned()),
      exp_avg_(DType::f32, Shape{owned_.size()}, account),
      exp_avg_sq_(DType::f32, Shape{owned_.size()}, account) {
  for (const FlatParameter& p : layout.parameters()) {
    const FlatRange here = intersection({p.begin, p.end}, owned_);
    if (here.size() == 0) continue;
    // Padding between neighbours is zero and stays zero.
    if (!ranges_.empty() && ranges_.back().decay == p.spec.weight_decay) {
      ranges_.back().end = here.end;
    } else {
      ranges_.push_back({here.begin, here.end, p.spec.weight_decay});
    }
  }
}

void Optimizer::update(const ComputeContext& context, ParameterStore& store, const OptimizerSettings& settings,
                       double lr, std::int64_t step, float grad_scale, std::span<const float> gradient) {
  AdamWStep adamw;
  adamw.lr = lr, adamw.beta1 = settings.beta1, adamw.beta2 = settings.beta2, adamw.eps = settings.eps;
  adamw.step = step, adamw.grad_scale = grad_scale;
  for (const Range& range : ranges_) {
    adamw.weight_decay = range.decay ? settings.weight_decay : 0.0;
    const auto begin = static_cast<std::size_t>(range.begin), count = static_cast<std::size_t>(range.end - range.begin);
    const auto at = static_cast<std::size_t>(range.begin - owned_.begin);
    const View copy = store.compute_copy();
    adamw_update(context, adamw, store.masters().subspan(begin, count), exp_avg().subspan(at, count),
                 exp_avg_sq().subspan(at, count), gradient.subspan(at, count),
                 copy.empty() ? View() : copy.rows(range.begin, range.end));
  }
}

}  // namespace longhaul
