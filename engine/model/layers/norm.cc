#include "engine/model/layers/norm.h"

#include "engine/ops/pointwise/layernorm.h"
#include "engine/ops/pointwise/rmsnorm.h"

namespace longhaul {

namespace {
std::span<float> floats(View view, std::int64_t count) {
  return view.span<float>().first(static_cast<std::size_t>(count));
}
}  // namespace

Norm::Norm(const ParameterStore& parameters, const std::string& name)
    : parameters_(&parameters),
      hidden_(parameters.shape().hidden_size),
      eps_(static_cast<float>(parameters.shape().rms_norm_eps)),
      weight_(parameters.layout().find(name + ".weight").begin) {
  if (parameters.shape().is_gpt2()) bias_ = parameters.layout().find(name + ".bias").begin;
}

void Norm::forward(const ComputeContext& context, std::int64_t rows, ConstView x, View y, View statistics) const {
  const ConstView weight = parameters_->vector(weight_, hidden_);
  if (bias_ < 0) return rmsnorm_forward(context, {rows, hidden_, eps_}, x, weight, y, floats(statistics, rows));
  layernorm_forward(context, {rows, hidden_, eps_}, x, weight, parameters_->vector(bias_, hidden_), y,
                    floats(statistics, 2 * rows));
}

void Norm::add_forward(const ComputeContext& context, std::int64_t rows, ConstView a, ConstView b,
                       ConstView column_bias, View sum, View y, View statistics) const {
  const ConstView weight = parameters_->vector(weight_, hidden_);
  if (bias_ < 0) {
    LH_ASSERT(column_bias.empty(), "linear layers beside RMSNorm have no biases");
    return add_rmsnorm_forward(context, {rows, hidden_, eps_}, a, b, weight, sum, y, floats(statistics, rows));
  }
  add_layernorm_forward(context, {rows, hidden_, eps_}, a, b, column_bias, weight, parameters_->vector(bias_, hidden_),
                        sum, y, floats(statistics, 2 * rows));
}

void Norm::backward(const ComputeContext& context, std::int64_t rows, ConstView dy, ConstView x, View statistics,
                    View dx, const GradientTarget& target, bool accumulate_dx) const {
  const ConstView weight = parameters_->vector(weight_, hidden_);
  if (bias_ < 0)
    return rmsnorm_backward(context, {rows, hidden_, eps_}, dy, x, weight, floats(statistics, rows), dx,
                            target.vector(weight_, hidden_), accumulate_dx);
  layernorm_backward(context, {rows, hidden_, eps_}, dy, x, weight, floats(statistics, 2 * rows), dx,
                     target.vector(weight_, hidden_), target.vector(bias_, hidden_), accumulate_dx);
}

void Norm::clear(const ComputeContext& context, const GradientTarget& target) const {
  for (const auto& [begin, end] : ranges()) target.clear(context, begin, end);
}

void Norm::say_ready(const GradientTarget& target) const {
  for (const auto& [begin, end] : ranges()) target.say_ready(begin, end);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Norm::ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all = {{weight_, weight_ + hidden_}};
  if (bias_ >= 0) all.emplace_back(bias_, bias_ + hidden_);
  return all;
}

}  // namespace longhaul
