#include "engine/model/precision/low_precision_linear.h"

#include <cmath>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

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

// With scales of blocks there is nothing to look at. A device that multiplies keeps what it finds: the host does not
// wait for it, unless the step measures.
void LowPrecisionLinear::look(const ComputeContext& context, OperandUse use, std::int64_t elements, ConstView x) {
  const LowPrecisionRecipe& recipe = state_->recipe();
  const bool of_history = recipe.scales == ScaleKind::history;
  if (recipe.scales == ScaleKind::block || (of_history && state_->evaluates)) return;
  const Operand operand = operand_of(use);
  if (state_->device().multiplies()) {
    if (!of_history && !state_->uses_low(layer_) && !state_->measures()) return;
    const View amax = state_->amax_on_device(layer_, matrix_, operand);
    if (!of_history) fill(context, amax, 0.0F);
    fp8_keep_amax(context, flat(x, elements), amax);
    if (of_history) return;
    fp8_tensor_scale(context, recipe.of(use).format, recipe.margin, amax,
                     state_->scale_on_device(layer_, matrix_, operand));
    current_[static_cast<int>(operand)] = NAN;
    return;
  }
  const float amax = largest_magnitude(context, flat(x, elements));
  if (of_history)
    state_->saw(layer_, matrix_, operand, amax);
  else
    current_[static_cast<int>(operand)] = tensor_scale(recipe.of(use).format, amax, recipe.margin);
}

float LowPrecisionLinear::host_scale(const ComputeContext& context, Operand operand) {
  if (state_->recipe().scales == ScaleKind::history) return state_->scale(layer_, matrix_, operand);
  float& scale = current_[static_cast<int>(operand)];
  if (std::isnan(scale) && state_->device().multiplies())
    copy_out(context, state_->scale_on_device(layer_, matrix_, operand), View(&scale, DType::f32, Shape{1}));
  return scale;
}

ConstView LowPrecisionLinear::round(const ComputeContext& context, OperandUse use, std::int64_t rows,
                                    std::int64_t columns, ConstView x, View memory, QuantizationSums* sums) {
  const View rounded = flat(memory, rows * columns);
  const BlockQuantization& how = state_->recipe().of(use);
  const TraceSpan span(context.trace(), "quantisation");
  if (state_->recipe().scales == ScaleKind::block)
    quantize_blocks(context, rows, columns, how, x, rounded, sums);
  else
    quantize_tensor(context, how.format, host_scale(context, operand_of(use)), flat(x, rows * columns), rounded, sums);
  return rounded;
}

ConstView LowPrecisionLinear::operand(const ComputeContext& context, OperandUse use, std::int64_t rows,
                                      std::int64_t columns, ConstView x, View memory) {
  const bool low = state_->uses_low(layer_);
  QuantizationSums* const sums = state_->sums(layer_, matrix_, use);
  if ((!low && !sums) || !state_->has_scale(layer_, matrix_, operand_of(use))) return x;
  const ConstView rounded = round(context, use, rows, columns, x, memory, sums);
  return low ? rounded : x;
}

bool LowPrecisionLinear::computes_low(const Uses& uses) const {
  return state_->uses_low(layer_) && state_->has_scale(layer_, matrix_, operand_of(uses.first)) &&
         state_->has_scale(layer_, matrix_, operand_of(uses.second));
}

bool LowPrecisionLinear::is_plain() const {
  return !state_ || (!state_->uses_low(layer_) && !state_->measures());
}

void LowPrecisionLinear::begin(const ComputeContext& context, const Uses& uses, LinearShape local, ConstView rows,
                               std::int64_t elements, ConstView weight) {
  weight_ = weight, second_ = Second::nothing;
  if (!state_) return;
  look(context, uses.first, elements, rows);
  if (uses.product == 0 || state_->recipe().scales == ScaleKind::tensor)
    look(context, uses.second, local.out * local.in, weight);
  // A device that multiplies needs no rounded copy; a step that measures counts what rounding does.
  if (state_->device().multiplies() && computes_low(uses) && !state_->sums(layer_, matrix_, uses.second)) return;
  rounded_ = operand(context, uses.second, local.out, local.in, weight, state_->second_operand());
  second_ = Second::rounded;
}

// The weights to multiply with where codes are not; measured when the product began.
ConstView LowPrecisionLinear::second(const ComputeContext& context, const Uses& uses, LinearShape shape) {
  if (second_ != Second::rounded)
    rounded_ = round(context, uses.second, shape.out, shape.in, weight_, state_->second_operand(), nullptr);
  second_ = Second::rounded;
  return rounded_;
}

void LowPrecisionLinear::forward(const ComputeContext& context, LinearShape shape, ConstView x, View y,
                                 ConstView bias) {
  if (!state_) return linear_forward(context, shape, x, weight_, y, bias);
  if (multiply(context, forward_uses, {shape.tokens, shape.out, shape.in}, x, weight_, y, bias)) return;
  const ConstView w = second(context, forward_uses, shape);
  linear_forward(context, shape,
                 operand(context, OperandUse::input_forward, shape.tokens, shape.in, x, state_->first_operand()), w, y,
                 bias);
}

void LowPrecisionLinear::backward_input(const ComputeContext& context, LinearShape shape, ConstView dy, View dx) {
  if (!state_) return linear_backward_input(context, shape, dy, weight_, dx);
  if (multiply(context, input_uses, {shape.tokens, shape.in, shape.out}, dy, weight_, dx)) return;
  const ConstView w = second(context, input_uses, shape);
  linear_backward_input(
      context, shape,
      operand(context, OperandUse::gradient_input, shape.tokens, shape.out, dy, state_->first_operand()), w, dx);
}

void LowPrecisionLinear::backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x,
                                         View dweight, View dbias, bool accumulate) {
  if (!state_) return linear_backward_weight(context, shape, dy, x, dweight, dbias, accumulate);
  if (state_->recipe().scales == ScaleKind::tensor) {
    look(context, OperandUse::gradient_weight, shape.tokens * shape.out, dy);
    look(context, OperandUse::input_weight, shape.tokens * shape.in, x);
  }
  second_ = Second::nothing;
  Fp8Product product{shape.out, shape.in, shape.tokens};
  product.beta = accumulate ? 1.0F : 0.0F;
  if (!multiply(context, weight_uses, product, dy, x, dweight)) {
    const ConstView low_dy =
        operand(context, OperandUse::gradient_weight, shape.tokens, shape.out, dy, state_->first_operand());
    const ConstView low_x =
        operand(context, OperandUse::input_weight, shape.tokens, shape.in, x, state_->second_operand());
    linear_backward_weight(context, shape, low_dy, low_x, dweight, {}, accumulate);
  }
  if (!dbias.empty()) linear_backward_bias(context, shape, dy, dbias, accumulate);
}

// Codes first, then scales of blocks.
auto LowPrecisionLinear::codes_in(View memory, OperandUse use, std::int64_t rows, std::int64_t columns) const -> Codes {
  const BlockQuantization& how = state_->recipe().of(use);
  Codes out{
      {{rows, columns, how.format, fp8_scales_of(state_->recipe(), use)}, is_transposed(use), how.rounding}, {}, {}};
  const std::int64_t codes = rows * columns, behind = (codes + 255) / 256 * 256, scales = out.how.to.scale_bytes();
  auto* const begin = static_cast<std::uint8_t*>(memory.data());
  if (out.how.to.scales == Fp8Scales::tensor) {
    out.scales = state_->scale_on_device(layer_, matrix_, operand_of(use));
    out.scales = View(out.scales.data(), DType::u8, Shape{scales});
  } else if (behind + scales <= memory.bytes()) {
    out.scales = View(begin + behind, DType::u8, Shape{scales});
  }
  if (codes <= memory.bytes()) out.codes = View(begin, DType::u8, Shape{codes});
  return out;
}

bool LowPrecisionLinear::multiply(const ComputeContext& context, const Uses& uses, Fp8Product shape, ConstView a,
                                  ConstView b, View c, ConstView bias) {
  if (!state_->device().multiplies() || !computes_low(uses)) return false;
  const Codes first = codes_in(state_->first_operand(), uses.first, shape.m, shape.k);
  const Codes other = codes_in(state_->second_operand(), uses.second, shape.n, shape.k);
  shape.a = first.how.to.format, shape.b = other.how.to.format;
  shape.scales_a = first.how.to.scales, shape.scales_b = other.how.to.scales;
  shape.fast = uses.product == 0 && state_->recipe().scales != ScaleKind::block;
  const Fp8Operands both{first.codes, first.scales, other.codes, other.scales};
  const bool fits = !first.codes.empty() && !first.scales.empty() && !other.codes.empty() && !other.scales.empty();
  const std::string why = fits ? fp8_refusal(context, shape, both, c) : "codes and scales do not fit where operands do";
  if (!why.empty()) {
    state_->device().note(
        format("low precision: emulated: {}, {}: {}", to_string(matrix_), product_names[uses.product], why));
    return false;
  }
  measure(context, uses, shape, a, b);
  const TraceSpan span(context.trace(), "fp8 product");
  fp8_cast(context, first.how, a, first.codes, first.scales);
  if (second_ != Second::codes) fp8_cast(context, other.how, b, other.codes, other.scales);
  second_ = Second::codes;
  fp8_product(context, shape, both, c, bias);
  return true;
}

// What rounding does to operands of which only codes are needed; weights are measured when their product begins.
void LowPrecisionLinear::measure(const ComputeContext& context, const Uses& uses, const Fp8Product& shape, ConstView a,
                                 ConstView b) {
  const auto look_at = [&](OperandUse use, std::int64_t outer, ConstView x, View memory) {
    QuantizationSums* const sums = state_->sums(layer_, matrix_, use);
    if (!sums) return;
    const bool turned = is_transposed(use);
    (void)round(context, use, turned ? shape.k : outer, turned ? outer : shape.k, x, memory, sums);
  };
  look_at(uses.first, shape.m, a, state_->first_operand());
  if (uses.product != 2) return;
  look_at(uses.second, shape.n, b, state_->second_operand());
}

}  // namespace longhaul
