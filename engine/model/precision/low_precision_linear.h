// Room engine/model/precision
// Linear layers in eight bits and fewer: how operands are quantised, and whether a layer may be.
// low_precision_recipe.h has the decisions, low_precision_state.h the scales, amax_history.h past magnitudes.
// low_precision_linear.h is what a layer calls; low_precision_device.h keeps scales on a GPU.
// It knows no layer of a model: it sees one matrix and one product at a time.
//
// The products of one matrix of a layer, in low precision or not: the plain ones of engine/ops/linear/gemm.h where
// there is no state, with the same bits.
#pragma once

#include "engine/model/precision/low_precision_state.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul {

class LowPrecisionLinear {
 public:
  LowPrecisionLinear() = default;
  // state: borrowed; null: everything is plain. layer: of the model.
  LowPrecisionLinear(LowPrecisionState* state, int layer, LayerMatrix matrix)
      : state_(state && !state->is_kept(layer) ? state : nullptr), layer_(layer), matrix_(matrix) {}

  // Before the rows of a product, which may come in pieces: looks at what this rank holds of the operands. The weights
  // stay where they are until the last piece.
  void begin_forward(const ComputeContext& context, LinearShape local, ConstView x, ConstView weight) {
    begin(context, forward_uses, local, x, local.tokens * local.in, weight);
  }
  void begin_backward_input(const ComputeContext& context, LinearShape local, ConstView dy, ConstView weight) {
    begin(context, input_uses, local, dy, local.tokens * local.out, weight);
  }
  // Rows of the product that began: y = x W^T (+ bias), dx = dy W.
  void forward(const ComputeContext& context, LinearShape shape, ConstView x, View y, ConstView bias = {});
  void backward_input(const ComputeContext& context, LinearShape shape, ConstView dy, View dx);
  // Is a product one of high precision, whose last step may be fused with what follows it?
  bool is_plain() const;
  ConstView weight() const { return weight_; }

  // dW [out, in] = or += dy^T x. A bias' gradient is the sum of dy as it is.
  void backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x, View dweight,
                       View dbias, bool accumulate);

 private:
  // The two operands of a product; its number among the three.
  struct Uses {
    OperandUse first, second;
    int product;
  };
  static constexpr Uses forward_uses{OperandUse::input_forward, OperandUse::weight_forward, 0};
  static constexpr Uses input_uses{OperandUse::gradient_input, OperandUse::weight_input, 1};
  static constexpr Uses weight_uses{OperandUse::gradient_weight, OperandUse::input_weight, 2};
  // What lies in the memory of the second operand.
  enum class Second { nothing, rounded, codes };

  void begin(const ComputeContext& context, const Uses& uses, LinearShape local, ConstView rows, std::int64_t elements,
             ConstView weight);
  void look(const ComputeContext& context, OperandUse use, std::int64_t elements, ConstView x);
  bool computes_low(const Uses& uses) const;
  // Quantised into `memory`, if the layer computes so; measured, if the step does.
  ConstView operand(const ComputeContext& context, OperandUse use, std::int64_t rows, std::int64_t columns, ConstView x,
                    View memory);
  ConstView round(const ComputeContext& context, OperandUse use, std::int64_t rows, std::int64_t columns, ConstView x,
                  View memory, QuantizationSums* sums);
  ConstView second(const ComputeContext& context, const Uses& uses, LinearShape shape);
  // C [m, n] of codes, summed over k; false: it has to be emulated. b stays from one piece to the next.
  bool multiply(const ComputeContext& context, const Uses& uses, Fp8Product shape, ConstView a, ConstView b, View c,
                ConstView bias = {});
  void measure(const ComputeContext& context, const Uses& uses, const Fp8Product& shape, ConstView a, ConstView b);
  struct Codes {
    Fp8Cast how;
    View codes, scales;
  };
  Codes codes_in(View memory, OperandUse use, std::int64_t rows, std::int64_t columns) const;
  float host_scale(const ComputeContext& context, Operand operand);

  LowPrecisionState* state_ = nullptr;
  int layer_ = 0;
  LayerMatrix matrix_ = LayerMatrix::qkv;
  ConstView weight_, rounded_;
  Second second_ = Second::nothing;
  // Scales of whole tensors, taken from them; NaN: the device has it, and the host has not asked.
  float current_[operands] = {1, 1, 1};
};

}  // namespace longhaul
