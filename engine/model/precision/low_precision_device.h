// What a device has of low precision: whether it multiplies the recipe's numbers itself (fp8.h) or they are emulated,
// and the scales and largest magnitudes of tensors, which stay in its memory: the host sends and fetches them once a
// step, and waits for none of them in between.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "contracts/settings/training/low_precision.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/precision/low_precision_recipe.h"
#include "engine/ops/linear/fp8.h"

namespace longhaul {

class LowPrecisionDevice {
 public:
  // places: tensors with a scale each. account: of memory on the device, where there is one.
  LowPrecisionDevice(const LowPrecisionSettings& settings, std::size_t places, MemoryAccount* account)
      : recipe_(settings.recipe), places_(places), account_(account) {}

  // Before a step. The first time decides, and notes in words which of the two computes, and why.
  void open(const ComputeContext& context);
  // Products of eight bits, where sizes allow it; else everything is emulated. False before open().
  bool multiplies() const { return multiplies_; }

  // Of a tensor, f32, on the device. For codes of blocks there are none.
  View amax(std::size_t place) { return one(place); }
  View scale(std::size_t place) { return one(places_ + place); }
  void send_scales(const ComputeContext& context, std::span<const float> scales);
  // most[place] = the larger of it and what was kept there, which begins anew. Waits.
  void fetch_amax(const ComputeContext& context, std::span<float> most);

  // A product that is emulated on a device that multiplies, once for each text.
  void note(const std::string& text);
  void take_notes(std::vector<std::string>& to);  // behind those that are there, but none twice

 private:
  View one(std::size_t place);
  // A copy of all largest magnitudes or scales as they lie on the device, and where they do.
  View all(std::size_t first) {
    return View(one(first).data(), DType::f32, Shape{static_cast<std::int64_t>(places_ * apart)});
  }

  // cuBLAS 13 multiplies by scales at multiples of 16 bytes only, though its heuristics offer algorithms for others.
  static constexpr std::size_t apart = 4;

  std::string recipe_;
  std::size_t places_;
  MemoryAccount* account_;
  bool opened_ = false, multiplies_ = false;
  Tensor floats_;  // largest magnitudes, then scales
  std::set<std::string> noted_;
  std::vector<std::string> notes_;
};

// How the operand of a product is scaled and where it lies, in terms of fp8.h: codes have what is summed over along
// their rows.
Fp8Scales fp8_scales_of(const LowPrecisionRecipe& recipe, OperandUse use);
constexpr bool is_transposed(OperandUse use) {
  return use == OperandUse::weight_input || use == OperandUse::gradient_weight || use == OperandUse::input_weight;
}

}  // namespace longhaul
