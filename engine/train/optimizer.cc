#include "engine/train/optimizer.h"

#include "engine/ops/adamw.h"

namespace longhaul {

Optimizer::Optimizer(const ParameterLayout& layout, MemoryAccount* account)
    : exp_avg_(DType::f32, Shape{layout.owned_size()}, account),
      exp_avg_sq_(DType::f32, Shape{layout.owned_size()}, account) {
  for (const FlatSection& section : layout.sections()) {
    const std::size_t first = ranges_.size();
    for (const FlatParameter& p : layout.parameters()) {
      const FlatRange here = intersection(intersection({p.begin, p.end}, section.range), section.owned);
      if (here.size() == 0) continue;
      // Padding between neighbours is zero and stays zero.
      if (ranges_.size() > first && ranges_.back().decay == p.spec.weight_decay) {
        ranges_.back().end = here.end;
      } else {
        const std::int64_t at = section.owned_at + here.begin - section.owned.begin;
        ranges_.push_back({here.begin, here.end, at, p.spec.weight_decay});
      }
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
    const auto at = static_cast<std::size_t>(range.at);
    const View copy = store.compute_copy();
    adamw_update(context, adamw, store.masters().subspan(begin, count), exp_avg().subspan(at, count),
                 exp_avg_sq().subspan(at, count), gradient.subspan(at, count),
                 copy.empty() ? View() : copy.rows(range.begin, range.end));
  }
}

}  // namespace longhaul
