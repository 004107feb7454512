#include "engine/model/experts/shared_experts.h"

#include "base/text/text.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

SharedExperts::SharedExperts(const ParameterStore& parameters, MoeState& state, const Recompute& again, int layer)
    : parameters_(parameters),
      state_(state),
      again_(again),
      dtype_(parameters.compute_dtype()),
      hidden_(parameters.shape().hidden_size),
      width_(parameters.shape().shared_size()) {
  if (!any()) return;
  const auto find = [&](const char* name) -> const FlatParameter& {
    return parameters.layout().find(format("model.layers.{}.block_sparse_moe.shared_experts.{}.weight", layer, name));
  };
  gate_up_ = find("gate_proj").begin;
  down_ = find("down_proj").begin, end_ = find("down_proj").end;
}

View SharedExperts::gate_up(ExpertActivations& kept, std::int64_t tokens) {
  return (again_.feed_forward ? state_.again : kept).shared_gate_up.take(dtype_, {tokens, 2 * width_});
}

View SharedExperts::activated(ExpertActivations& kept, std::int64_t tokens) {
  return (again_.activation ? state_.again : kept).shared_activated.take(dtype_, {tokens, width_});
}

void SharedExperts::activate(const ComputeContext& context, ExpertActivations& kept, View x, bool inputs) {
  const std::int64_t m = x.shape()[0];
  const View both = gate_up(kept, m);
  if (inputs) linear_forward(context, {m, hidden_, 2 * width_}, x, weight_in(), both);
  swiglu_forward(context, both, activated(kept, m));
}

void SharedExperts::output(const ComputeContext& context, ExpertActivations& kept, View y) {
  const std::int64_t m = y.shape()[0];
  linear_forward(context, {m, width_, hidden_}, activated(kept, m), weight_out(), y);
}

void SharedExperts::backward(const ComputeContext& context, ExpertActivations& kept, MoeGradients& g, View dy) {
  const std::int64_t m = dy.shape()[0];
  const View dout = g.shared.take(dtype_, {m, hidden_}), dboth = g.shared_gate_up.take(dtype_, {m, 2 * width_});
  const View dactivated = state_.scratch.activated.take(dtype_, {m, width_});
  cast(context, dy, dout);
  linear_backward_input(context, {m, width_, hidden_}, dout, weight_out(), dactivated);
  swiglu_backward(context, dactivated, gate_up(kept, m), dboth);
}

void SharedExperts::backward_input(const ComputeContext& context, MoeGradients& g, View dx) {
  const std::int64_t m = dx.shape()[0];
  linear_backward_input(context, {m, hidden_, 2 * width_}, g.shared_gate_up.take(dtype_, {m, 2 * width_}), weight_in(),
                        dx, true);
}

void SharedExperts::backward_weight(const ComputeContext& context, ExpertActivations& kept, MoeGradients& g, View x,
                                    const GradientTarget& target) {
  const std::int64_t m = x.shape()[0];
  linear_backward_weight(context, {m, width_, hidden_}, g.shared.take(dtype_, {m, hidden_}), activated(kept, m),
                         target.matrix(down_, hidden_, width_), {}, !target.overwrite);
  linear_backward_weight(context, {m, hidden_, 2 * width_}, g.shared_gate_up.take(dtype_, {m, 2 * width_}), x,
                         target.matrix(gate_up_, 2 * width_, hidden_), {}, !target.overwrite);
}

}  // namespace longhaul
