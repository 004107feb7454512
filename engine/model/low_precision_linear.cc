#include "engine/model/low_precision_linear.h"

namespace longhaul {

namespace {
ConstView flat(ConstView x, std::int64_t elements) {
  return ConstView(x.data(), x.dtype(), Shape{elements});
}
View flat(View x, std::int64_t elements) {
  LH_ASSERT(x.size() >= elements, "the largest operand was smaller");
  return View(x.data(), x.dtype(), Shape{elements});
}
}  // namespace

void LowPrecisionLinear::look(const ComputeContext& context, OperandUse use, std::int64_t elements, ConstView x) {
  const LowPrecisionRecipe& recipe = state_->recipe();
  if (recipe.scales == ScaleKind::block || (recipe.scales == ScaleKind::history && state_->evaluates)) return;
  const Operand operand = operand_of(use);
  const float amax = largest_magnitude(context, flat(x, elements));
  if (recipe.scales == ScaleKind::history)
    state_->saw(layer_, matrix_, operand, amax);
  else
    current_[static_cast<int>(operand)] = tensor_scale(recipe.of(use).format, amax, recipe.margin);
}

ConstView LowPrecisionLinear::operand(const ComputeContext& context, OperandUse use, std::int64_t rows,
                                      std::int64_t columns, ConstView x, View memory) {
  const bool low = state_->uses_low(layer_);
  QuantizationSums* const sums = state_->sums(layer_, matrix_, use);
  const Operand which = operand_of(use);
  if ((!low && !sums) || !state_->has_scale(layer_, matrix_, which)) return x;
  const View rounded = flat(memory, rows * columns);
  const BlockQuantization& how = state_->recipe().of(use);
  const TraceSpan span(context.trace(), "quantisation");
  if (state_->recipe().scales == ScaleKind::block) {
    quantize_blocks(context, rows, columns, how, x, rounded, sums);
  } else {
    const float scale = state_->recipe().scales == ScaleKind::history ? state_->scale(layer_, matrix_, which)
                                                                      : current_[static_cast<int>(which)];
    quantize_tensor(context, how.format, scale, flat(x, rows * columns), rounded, sums);
  }
  return low ? ConstView(rounded) : x;
}

ConstView LowPrecisionLinear::begin_forward(const ComputeContext& context, LinearShape local, ConstView x,
                                            ConstView weight) {
  if (!state_) return weight;
  forward_ = true;
  look(context, OperandUse::input_forward, local.tokens * local.in, x);
  look(context, OperandUse::weight_forward, local.out * local.in, weight);
  return operand(context, OperandUse::weight_forward, local.out, local.in, weight, state_->second_operand());
}

ConstView LowPrecisionLinear::begin_backward_input(const ComputeContext& context, LinearShape local, ConstView dy,
                                                   ConstView weight) {
  if (!state_) return weight;
  forward_ = false;
  look(context, OperandUse::gradient_input, local.tokens * local.out, dy);
  if (state_->recipe().scales == ScaleKind::tensor)
    look(context, OperandUse::weight_input, local.out * local.in, weight);
  return operand(context, OperandUse::weight_input, local.out, local.in, weight, state_->second_operand());
}

ConstView LowPrecisionLinear::rows(const ComputeContext& context, LinearShape shape, ConstView rows) {
  if (!state_) return rows;
  return operand(context, forward_ ? OperandUse::input_forward : OperandUse::gradient_input, shape.tokens,
                 forward_ ? shape.in : shape.out, rows, state_->first_operand());
}

void LowPrecisionLinear::backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x,
                                         View dweight, View dbias, bool accumulate) {
  if (!state_) return linear_backward_weight(context, shape, dy, x, dweight, dbias, accumulate);
  if (state_->recipe().scales == ScaleKind::tensor) {
    look(context, OperandUse::gradient_weight, shape.tokens * shape.out, dy);
    look(context, OperandUse::input_weight, shape.tokens * shape.in, x);
  }
  const ConstView low_dy =
      operand(context, OperandUse::gradient_weight, shape.tokens, shape.out, dy, state_->first_operand());
  const ConstView low_x =
      operand(context, OperandUse::input_weight, shape.tokens, shape.in, x, state_->second_operand());
  linear_backward_weight(context, shape, low_dy, low_x, dweight, {}, accumulate);
  if (!dbias.empty()) linear_backward_bias(context, shape, dy, dbias, accumulate);
}

}  // namespace longhaul
