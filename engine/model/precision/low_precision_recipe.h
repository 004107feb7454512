// A recipe in detail: how each operand of each of a linear layer's three products is quantised. The same decisions hold
// wherever the products are computed.
//
//   forward          y  = x W^T    sums over the inputs
//   input gradient   dx = dy W     sums over the outputs
//   weight gradient  dW = dy^T x   sums over the tokens
//
// Blocks lie along what is summed over, so that hardware may take a block's scale out of the sum. What enters two
// products is quantised for each of them, from high precision: a block of a row is none of a column.
#pragma once

#include <array>

#include "contracts/settings/training/low_precision.h"
#include "engine/ops/linear/quantize_blocks.h"

namespace longhaul {

// The products of a layer, by their number.
inline constexpr const char* product_names[] = {"forward", "the input's gradient", "the weights' gradient"};
// What is quantised, and for which product.
enum class OperandUse { input_forward, weight_forward, gradient_input, weight_input, gradient_weight, input_weight };
inline constexpr int operand_uses = 6;
// The tensor that it is. Those of a layer have one scale each where scales are of tensors.
enum class Operand { input, weight, gradient };
inline constexpr int operands = 3;
constexpr Operand operand_of(OperandUse use) {
  constexpr Operand of[] = {Operand::input,  Operand::weight,   Operand::gradient,
                            Operand::weight, Operand::gradient, Operand::input};
  return of[static_cast<int>(use)];
}

enum class ScaleKind { history, tensor, block };

struct LowPrecisionRecipe {
  ScaleKind scales = ScaleKind::block;
  std::array<BlockQuantization, operand_uses> uses;  // of tensor scales: the format alone
  int margin = 0;
  std::int64_t history = 1;  // steps

  const BlockQuantization& of(OperandUse use) const { return uses[static_cast<std::size_t>(use)]; }
};

// Formats and scales: delayed, current, blockwise, mxfp8 as Transformer Engine's recipes of these names (E4M3 forward
// and E5M2 backward; E4M3 everywhere with blocks); mxfp6 and mxfp4 as arXiv 2310.10537, section 5, has all operands in
// one format. Settings that are on, checked.
LowPrecisionRecipe recipe_from(const LowPrecisionSettings& settings);

}  // namespace longhaul
