#include "engine/model/precision/low_precision_device.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"

namespace longhaul {

namespace {

// Empty: no device multiplies such numbers.
std::vector<Fp8Scales> scales_of(const std::string& recipe) {
  if (recipe == "delayed" || recipe == "current") return {Fp8Scales::tensor};
  if (recipe == "blockwise") return {Fp8Scales::rows, Fp8Scales::squares};
  if (recipe == "mxfp8") return {Fp8Scales::mx};
  return {};
}

}  // namespace

Fp8Scales fp8_scales_of(const LowPrecisionRecipe& recipe, OperandUse use) {
  if (recipe.scales != ScaleKind::block) return Fp8Scales::tensor;
  const BlockQuantization& how = recipe.of(use);
  if (how.rows > 1 && how.columns > 1) return Fp8Scales::squares;
  return how.rows * how.columns == 32 ? Fp8Scales::mx : Fp8Scales::rows;
}

void LowPrecisionDevice::open(const ComputeContext& context) {
  if (std::exchange(opened_, true)) return;
  const std::vector<Fp8Scales> scales = scales_of(recipe_);
  const Fp8Support support = fp8_support(context);
  multiplies_ = !scales.empty();
  for (const Fp8Scales one : scales) multiplies_ = multiplies_ && support.has(one);
  if (multiplies_) {
    note(format("low precision {}: fp8 products, with {}", recipe_, to_string(scales.front())));
    floats_ = Tensor(DType::f32, {static_cast<std::int64_t>(2 * places_ * apart)}, account_);
    const std::vector<float> zeros(2 * places_ * apart);
    copy_in(context, ConstView(zeros.data(), DType::f32, floats_.shape()), floats_);
  } else {
    note(format("low precision {}: emulated, operands are rounded and products those of high precision: {}", recipe_,
                scales.empty() ? "numbers of fewer than eight bits are multiplied nowhere here" : support.why_not));
  }
}

View LowPrecisionDevice::one(std::size_t place) {
  LH_ASSERT(multiplies_ && place < 2 * places_, std::to_string(place));
  return View(floats_.view().as<float>() + place * apart, DType::f32, Shape{1});
}

void LowPrecisionDevice::send_scales(const ComputeContext& context, std::span<const float> scales) {
  LH_ASSERT(scales.size() == places_, std::to_string(scales.size()));
  std::vector<float> spread(places_ * apart);
  for (std::size_t i = 0; i < places_; ++i) spread[i * apart] = scales[i];
  const View on_device = all(places_);
  copy_in(context, ConstView(spread.data(), DType::f32, on_device.shape()), on_device);
}

void LowPrecisionDevice::fetch_amax(const ComputeContext& context, std::span<float> most) {
  std::vector<float> kept(places_ * apart);
  const View on_device = all(0);
  copy_out(context, on_device, View(kept.data(), DType::f32, on_device.shape()));
  for (std::size_t i = 0; i < places_; ++i)
    if (!(most[i] >= kept[i * apart])) most[i] = kept[i * apart];
  std::fill(kept.begin(), kept.end(), 0.0F);
  copy_in(context, ConstView(kept.data(), DType::f32, on_device.shape()), on_device);
}

void LowPrecisionDevice::note(const std::string& text) {
  if (noted_.insert(text).second) notes_.push_back(text);
}

void LowPrecisionDevice::take_notes(std::vector<std::string>& to) {
  for (std::string& note : std::exchange(notes_, {}))
    if (std::ranges::find(to, note) == to.end()) to.push_back(std::move(note));
}

}  // namespace longhaul
