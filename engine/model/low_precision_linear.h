// The products of one matrix of a layer, in low precision or not: the plain ones of engine/ops/gemm.h where there is no
// state, with the same bits.
#pragma once

#include "engine/model/low_precision_state.h"
#include "engine/ops/gemm.h"

namespace longhaul {

class LowPrecisionLinear {
 public:
  LowPrecisionLinear() = default;
  // state: borrowed; null: everything is plain. layer: of the model.
  LowPrecisionLinear(LowPrecisionState* state, int layer, LayerMatrix matrix)
      : state_(state && !state->is_kept(layer) ? state : nullptr), layer_(layer), matrix_(matrix) {}

  // Before the rows of a product, which may come in pieces: looks at what this rank holds of the operands, rounds W,
  // and gives what to multiply with, valid until the next begin_*.
  ConstView begin_forward(const ComputeContext& context, LinearShape local, ConstView x, ConstView weight);
  ConstView begin_backward_input(const ComputeContext& context, LinearShape local, ConstView dy, ConstView weight);
  // Rows of x [tokens, in] or dy [tokens, out] as they go into the product that began; valid until the next rows.
  ConstView rows(const ComputeContext& context, LinearShape shape, ConstView rows);

  // dW [out, in] = or += dy^T x. A bias' gradient is the sum of dy as it is.
  void backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x, View dweight,
                       View dbias, bool accumulate);

 private:
  // Quantised into `memory`, if the layer computes so; measured, if the step does.
  ConstView operand(const ComputeContext& context, OperandUse use, std::int64_t rows, std::int64_t columns, ConstView x,
                    View memory);
  void look(const ComputeContext& context, OperandUse use, std::int64_t elements, ConstView x);

  LowPrecisionState* state_ = nullptr;
  int layer_ = 0;
  LayerMatrix matrix_ = LayerMatrix::qkv;
  bool forward_ = true;                  // which product began
  float current_[operands] = {1, 1, 1};  // scales of whole tensors, taken from them
};

}  // namespace longhaul
