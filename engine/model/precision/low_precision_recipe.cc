#include "engine/model/precision/low_precision_recipe.h"

namespace longhaul {

namespace {

NumberFormat element_of(const LowPrecisionSettings& settings) {
  if (settings.recipe == "mxfp4") return NumberFormat::e2m1;
  if (settings.recipe != "mxfp6") return NumberFormat::e4m3;
  return settings.mxfp6_element == "e3m2" ? NumberFormat::e3m2 : NumberFormat::e2m3;
}

// Rows of x, W and dy are tokens, outputs and tokens: forward and the input's gradient sum along a row of their first
// operand, the weights' gradient along columns.
bool along_rows(OperandUse use) {
  return use == OperandUse::input_forward || use == OperandUse::weight_forward || use == OperandUse::gradient_input;
}

}  // namespace

LowPrecisionRecipe recipe_from(const LowPrecisionSettings& settings) {
  LowPrecisionRecipe recipe;
  recipe.margin = static_cast<int>(settings.margin), recipe.history = settings.amax_history;
  recipe.scales = settings.recipe == "delayed"   ? ScaleKind::history
                  : settings.recipe == "current" ? ScaleKind::tensor
                                                 : ScaleKind::block;
  const bool blockwise = settings.recipe == "blockwise";
  const std::int64_t block = settings.block();
  for (int i = 0; i < operand_uses; ++i) {
    const auto use = static_cast<OperandUse>(i);
    BlockQuantization& how = recipe.uses[static_cast<std::size_t>(i)];
    how.format = element_of(settings);
    if (recipe.scales != ScaleKind::block && operand_of(use) == Operand::gradient) how.format = NumberFormat::e5m2;
    how.rows = along_rows(use) ? 1 : block, how.columns = along_rows(use) ? block : 1;
    if (blockwise && operand_of(use) == Operand::weight) how.rows = how.columns = block;
    how.rounding = !blockwise && settings.scale_rounding == "floor" ? ScaleRounding::floor : ScaleRounding::up;
  }
  return recipe;
}

}  // namespace longhaul
