// What the linear layers of a model know of their low precision: which of them use it, the scales of tensors, and what
// was seen and measured in the step that goes on. Every rank holds it for all layers of the model, with the same bits:
// scales and decisions change only between steps, from what all ranks saw together, so that no layout changes a loss.
//
// Is it safe for a layer? Nothing is quantised before it was measured. In a step that measures (the first with scales,
// then one in check_every_steps) every operand of every product is quantised beside the computation, and counted: what
// became zero, what lay above the range, and the noise. The noise-to-signal ratio of a product of operands whose errors
// know nothing of each other is the sum of theirs; unlike that of the product itself, which ranks hold addends of, it
// is the same in every layout. A layer that passes a limit computes in high precision until it is measured again.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/precision/amax_history.h"
#include "engine/model/precision/low_precision_device.h"
#include "engine/model/precision/low_precision_recipe.h"

namespace longhaul {

// The matrices of a layer that are multiplied as one.
enum class LayerMatrix { qkv, attention_output, mlp_input, mlp_output };
inline constexpr int layer_matrices = 4;
const char* to_string(LayerMatrix matrix);

// Of all layers of the model; of what other ranks compute, nothing. Addends of ranks are merged element by element.
struct LowPrecisionSeen {
  std::vector<float> amax;                 // [layers, matrices, operands]: the largest is everybody's
  std::vector<QuantizationSums> measured;  // [layers, matrices, uses]; empty in a step that does not measure

  void merge(const LowPrecisionSeen& other);
  // As numbers to send and to merge from.
  std::vector<double> packed() const;
  static LowPrecisionSeen from_packed(std::span<const double> numbers, std::size_t layers, bool measures);
};

// What became of a layer when it was judged.
struct LayerVerdict {
  int layer = 0;
  bool low = false;      // uses the recipe from now on
  bool changed = false;  // or judged for the first time
  std::string reason;    // against low precision: the worst limit that is passed, with its place and figures
  double snr_db = 0;     // of its worst product
  double flushed = 0, saturated = 0;  // of its worst operand
};

class LowPrecisionState {
 public:
  // rows, weights: elements of the largest operands (two are in memory at a time). A settings' recipe that is on.
  LowPrecisionState(const LowPrecisionSettings& settings, int layers, DType dtype, std::int64_t rows_max,
                    std::int64_t weights_max, MemoryAccount* account);

  const LowPrecisionRecipe& recipe() const { return recipe_; }
  int layers() const { return static_cast<int>(low_.size()); }
  // Not in precision of the recipe, whatever is measured: the first and the last layers.
  bool is_kept(int layer) const;
  bool uses_low(int layer) const { return low_[static_cast<std::size_t>(layer)]; }
  bool measures() const { return !seen_.measured.empty(); }
  // A model that is judged leaves no trace in scales.
  bool evaluates = false;

  // For the products of one matrix.
  float scale(int layer, LayerMatrix matrix, Operand operand) const;  // of history; the step's
  bool has_scale(int layer, LayerMatrix matrix, Operand operand) const;
  void saw(int layer, LayerMatrix matrix, Operand operand, float amax);
  QuantizationSums* sums(int layer, LayerMatrix matrix, OperandUse use);  // null: not measured now
  View first_operand() { return first_; }
  View second_operand() { return second_; }

  // On a device that multiplies the recipe's numbers: what it keeps of a tensor, and why a product is emulated there.
  LowPrecisionDevice& device() { return device_; }
  View amax_on_device(int layer, LayerMatrix matrix, Operand operand) {
    return device_.amax(place(layer, matrix, operand));
  }
  View scale_on_device(int layer, LayerMatrix matrix, Operand operand) {
    return device_.scale(place(layer, matrix, operand));
  }

  // Before a step: whether it measures. context: where it computes, borrowed from now on; null: no
  // device multiplies.
  void begin_step(std::int64_t step, const ComputeContext* context = nullptr);
  // What this model saw in it; the next one begins empty.
  LowPrecisionSeen take_seen();
  // After a step that counts, with what all ranks saw. The verdicts of one that measured.
  std::vector<LayerVerdict> end_step(std::int64_t step, const LowPrecisionSeen& all);

  // For checkpoints. An error (corrupt, invalid_input) says what does not go with these settings.
  Value state() const;
  Status restore(const Value& state);

 private:
  // Of a matrix among all; its operands and uses follow each other.
  static std::size_t place(int layer, LayerMatrix matrix) {
    return static_cast<std::size_t>(layer) * layer_matrices + static_cast<std::size_t>(matrix);
  }
  static std::size_t place(int layer, LayerMatrix matrix, Operand operand) {
    return place(layer, matrix) * operands + static_cast<std::size_t>(operand);
  }
  bool has_scales() const;
  void send_scales();
  LayerVerdict judge(int layer, const LowPrecisionSeen& all) const;

  LowPrecisionSettings settings_;
  LowPrecisionRecipe recipe_;
  std::vector<bool> low_;             // by layer
  std::int64_t judged_step_ = 0;      // last; 0: never
  std::vector<AmaxHistory> history_;  // [layers, matrices, operands], with scales of history
  LowPrecisionSeen seen_;
  Tensor first_, second_;
  LowPrecisionDevice device_;
  const ComputeContext* context_ = nullptr;  // of the step
};

}  // namespace longhaul
