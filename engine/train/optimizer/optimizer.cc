#include "engine/train/optimizer/optimizer.h"

#include "contracts/model/weight_decay.h"

namespace longhaul {
namespace {

// Rows of a box of a tensor; the dims behind the second are whole in every layout.
ElementOrder order_of(const FlatParameter& p) {
  const std::vector<std::int64_t>&shape = p.spec.shape, &extent = p.box.extent, &offset = p.box.offset;
  ElementOrder order;
  std::int64_t inner = 1;  // elements for each index of the first dim
  for (std::size_t dim = 1; dim < shape.size(); ++dim) inner *= shape[dim];
  order.origin = offset[0] * inner;
  if (shape.size() < 2 || extent[1] == shape[1]) return order;
  LH_ASSERT(shape.size() == 2, p.spec.name);
  order.origin += offset[1];
  order.width = extent[1], order.stride = shape[1];
  return order;
}

}  // namespace

StateTypes state_types(const OptimizerSettings& settings) {
  StateTypes types = all_f32;
  if (settings.moments != "f32") types[1] = DType::bf16;
  if (settings.moments == "bf16") types[2] = DType::bf16;
  return types;
}

Optimizer::Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings, std::uint64_t seed,
                     MemoryAccount* account, MomentStream* offloaded)
    : settings_(settings),
      seed_(seed),
      stochastic_(settings.rounding == "stochastic" && settings.moments != "f32"),
      offloaded_(offloaded) {
  const StateTypes types = state_types(settings);
  if (!offloaded) {
    exp_avg_ = Tensor(types[1], Shape{layout.owned().size()}, account);
    exp_avg_sq_ = Tensor(types[2], Shape{layout.owned().size()}, account);
  }
  LH_ASSERT(
      exp_avg().size() == layout.owned().size() && exp_avg().dtype() == types[1] && exp_avg_sq().dtype() == types[2],
      "moments outside of memory are not those of this layout");
  for (const FlatParameter& p : layout.parameters()) {
    const bool decay = !without_decay(p.spec, settings.no_decay);
    layout.owned().for_each_in({p.begin, p.end}, [&](FlatRange flat, FlatRange packed) {
      // Padding between neighbours is zero and stays zero.
      if (!stochastic_ && !ranges_.empty() && ranges_.back().decay == decay) {
        ranges_.back().packed.end = packed.end;
      } else {
        ranges_.push_back({packed, decay, parameter_stream(p.spec.name), {{}, order_of(p), flat.begin - p.begin}});
      }
    });
  }
}

Status Optimizer::update(const ComputeContext& context, ParameterStore& store, double lr, std::int64_t step,
                         float grad_scale, std::span<const float> gradient) {
  AdamWStep adamw;
  adamw.lr = lr, adamw.beta1 = settings_.beta1, adamw.beta2 = settings_.beta2, adamw.eps = settings_.eps;
  adamw.step = step, adamw.grad_scale = grad_scale;
  const View copy = store.compute_copy();
  const auto update_block = [&](FlatRange block, View exp_avg, View exp_avg_sq) {
    for (const Range& range : ranges_) {
      const FlatRange here = intersection(range.packed, block);
      if (here.size() == 0) continue;
      const std::int64_t begin = here.begin - block.begin, end = here.end - block.begin;
      adamw.weight_decay = range.decay ? settings_.weight_decay : 0.0;
      AdamWRounding rounding = range.rounding;
      rounding.begin += here.begin - range.packed.begin;
      // Another stream for each step, apart from that of the initial values.
      rounding.random = {seed_, range.stream + static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15ULL};
      adamw_update(context, adamw, part_of(store.masters(), here), exp_avg.rows(begin, end),
                   exp_avg_sq.rows(begin, end), part_of(gradient, here),
                   copy.empty() ? View() : copy.rows(here.begin, here.end), stochastic_ ? &rounding : nullptr);
    }
  };
  if (offloaded_)
    LH_CHECK(offloaded_->pass(update_block));
  else
    update_block({0, exp_avg_.size()}, exp_avg_, exp_avg_sq_);
  store.shares_changed();
  return {};
}

}  // namespace longhaul
