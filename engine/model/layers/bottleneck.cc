#include "engine/model/layers/bottleneck.h"

#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/linear/linear_gelu.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

Bottleneck::Bottleneck(const ParameterStore& parameters, int layer, LayerHalf half)
    : parameters_(&parameters), hidden_(parameters.shape().hidden_size), size_(parameters.shape().bottleneck.size) {
  const std::string prefix = bottleneck_prefix(parameters.shape(), layer, half);
  const auto begin = [&](const char* name) { return parameters.layout().find(prefix + name).begin; };
  at_ = {begin("down.weight"), begin("down.bias"), begin("up.weight"), begin("up.bias")};
}

void Bottleneck::forward(const ComputeContext& context, std::int64_t rows, View branch,
                         const BottleneckActivations& kept) const {
  const View input = first_rows(kept.input, rows), activated = first_rows(kept.activated, rows);
  cast(context, branch, input);
  linear_gelu_forward(context, {rows, hidden_, size_}, input, parameters_->weight(at_.down, size_, hidden_),
                      parameters_->vector(at_.down_bias, size_), first_rows(kept.sum, rows), activated);
  linear_forward(context, {rows, size_, hidden_}, activated, parameters_->weight(at_.up, hidden_, size_), branch,
                 parameters_->vector(at_.up_bias, hidden_));
  add(context, branch, input, branch);
}

void Bottleneck::backward(const ComputeContext& context, std::int64_t rows, const BottleneckActivations& kept, View dy,
                          View dz, View dh, const GradientTarget& target) const {
  const View of_output = first_rows(dy, rows), inner = first_rows(dz, rows), of_input = first_rows(dh, rows);
  take_gradient(context, rows, of_output, hidden_, first_rows(kept.activated, rows), size_, at_.up, at_.up_bias,
                target);
  linear_gelu_backward(context, {rows, size_, hidden_}, of_output, parameters_->weight(at_.up, hidden_, size_),
                       first_rows(kept.sum, rows), inner);
  take_gradient(context, rows, inner, size_, first_rows(kept.input, rows), hidden_, at_.down, at_.down_bias, target);
  cast(context, of_output, of_input);
  linear_backward_input(context, {rows, hidden_, size_}, inner, parameters_->weight(at_.down, size_, hidden_), of_input,
                        true);
}

void Bottleneck::take_gradient(const ComputeContext& context, std::int64_t rows, ConstView dy, std::int64_t out,
                               ConstView x, std::int64_t in, std::int64_t weight, std::int64_t bias,
                               const GradientTarget& target) const {
  const bool accumulate = !target.overwrite;
  if (target.wants(weight))
    linear_backward_weight(context, {rows, in, out}, dy, x, target.matrix(weight, out, in), {}, accumulate);
  if (target.wants(bias)) linear_backward_bias(context, {rows, in, out}, dy, target.bias(bias, out), accumulate);
  target.say_ready(weight, weight + out * in);
  target.say_ready(bias, bias + out);
}

}  // namespace longhaul
